/**
 * Data sets from the Hugging Face Hub or a mirror of it: the Parquet files of one repository, each whole and checked.
 *
 * Written here because `@huggingface/hub` neither resumes a download nor checks what came. What is spoken is the plain
 * protocol that mirrors have too: one listing, then `resolve` addresses.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { codeOf, HoneError, messageOf } from "../../../util/index.js";
import { exchange, type HttpOptions, Interrupted, rootOf } from "./hub-http.js";

export interface HubOptions extends HttpOptions {
  /** HF_HUB_OFFLINE: only what was downloaded before. */
  readonly offline: boolean;
  /** Folder in which downloads are kept. */
  readonly cache: string;
  onProgress?(progress: HubProgress): void;
}

/** Bytes of all files of the data set. */
export interface HubProgress {
  readonly file: string;
  readonly done: number;
  readonly total: number;
}

/** Large files have the SHA-256 of their content, small ones git's SHA-1 of it. Some mirrors list names only. */
const listing = z.object({
  sha: z.string().regex(/^[0-9a-f]{40}$/),
  siblings: z.array(
    z.object({
      rfilename: z.string(),
      size: z.number().int().nonnegative().nullish(),
      blobId: z.string().nullish(),
      lfs: z.object({ sha256: z.string() }).nullish(),
    }),
  ),
});

const fileSchema = z.object({
  path: z.string(),
  size: z.number().int().nonnegative(),
  checksum: z.string().regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/),
});
type RemoteFile = z.infer<typeof fileSchema>;

const manifestSchema = z.object({ revision: z.string(), files: z.array(fileSchema) });
type Manifest = z.infer<typeof manifestSchema>;

/**
 * Makes sure the Parquet files of a data set are on this machine.
 *
 * @returns their paths, in the order of their names
 * @throws HoneError when the Hub cannot be reached, refuses, or delivers something else than it listed
 */
export async function fetchDataset(repository: string, options: HubOptions): Promise<string[]> {
  const folder = join(options.cache, "datasets", repository);
  const before = await readManifest(folder);
  if (options.offline) {
    const paths = (before?.files ?? []).map(({ path }) => join(folder, path));
    const sizes = await Promise.all(paths.map(sizeOf));
    if (before?.files.every(({ size }, index) => sizes[index] === size)) return paths;
    throw new HoneError(`${repository} was not downloaded before: run once without HF_HUB_OFFLINE`);
  }

  const manifest = await list(repository, options);
  const total = manifest.files.reduce((sum, { size }) => sum + size, 0);
  let done = 0;
  for (const file of manifest.files) {
    const path = join(folder, file.path);
    const known = before?.files.some((old) => old.path === file.path && old.checksum === file.checksum);
    if (!known || (await sizeOf(path)) !== file.size) {
      const report = (bytes: number) => options.onProgress?.({ file: file.path, done: done + bytes, total });
      await download(addressOf(repository, manifest.revision, file.path, options), file, path, options, report);
    }
    done += file.size;
  }
  await writeManifest(folder, manifest);
  return manifest.files.map(({ path }) => join(folder, path));
}

function addressOf(repository: string, revision: string, path: string, options: HubOptions): string {
  return `${rootOf(options)}/datasets/${repository}/resolve/${revision}/${path.split("/").map(encodeURIComponent).join("/")}`;
}

async function readManifest(folder: string): Promise<Manifest | undefined> {
  try {
    return manifestSchema.parse(JSON.parse(await readFile(join(folder, "manifest.json"), "utf8")));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw new HoneError(`${folder} is damaged (${messageOf(error).split("\n")[0]}): delete it`, { cause: error });
  }
}

async function writeManifest(folder: string, manifest: Manifest): Promise<void> {
  const path = join(folder, "manifest.json");
  await writeFile(`${path}.new`, `${JSON.stringify(manifest, undefined, 2)}\n`);
  await rename(`${path}.new`, path);
}

async function list(repository: string, options: HubOptions): Promise<Manifest> {
  const url = `${rootOf(options)}/api/datasets/${repository}/revision/main?blobs=true`;
  const answer = await exchange(
    () => ({ url, method: "GET" }),
    options,
    ({ response }) => response.text(),
  );
  let parsed: z.infer<typeof listing>;
  try {
    parsed = listing.parse(JSON.parse(answer));
  } catch (error) {
    throw new HoneError(`${url} did not answer with the listing of a data set: check HF_ENDPOINT`, { cause: error });
  }
  const names = parsed.siblings
    .filter(({ rfilename }) => rfilename.endsWith(".parquet") && !rfilename.split("/").includes(".."))
    .sort((a, b) => (a.rfilename < b.rfilename ? -1 : 1));
  if (names.length === 0) throw new HoneError(`${repository} has no Parquet files`);
  const files: RemoteFile[] = [];
  for (const { rfilename: path, size, blobId, lfs } of names) {
    const file = fileSchema.safeParse({ path, size, checksum: lfs?.sha256 ?? blobId });
    files.push(
      file.success ? file.data : await describe(addressOf(repository, parsed.sha, path, options), path, options),
    );
  }
  return { revision: parsed.sha, files };
}

/** Size and checksum from the headers of the file itself: of the file, where the answer is a redirect or a pointer. */
async function describe(url: string, path: string, options: HubOptions): Promise<RemoteFile> {
  return exchange(
    () => ({ url, method: "HEAD" }),
    options,
    async ({ response, headers }) => {
      const tag = headers.get("x-linked-etag") ?? response.headers.get("etag") ?? "";
      const size = Number(headers.get("x-linked-size") ?? response.headers.get("content-length"));
      const file = fileSchema.safeParse({ path, size, checksum: tag.replace(/^(?:W\/)?"|"$/g, "") });
      if (file.success) return file.data;
      throw new HoneError(`${url} comes without a checksum, so it could not be trusted: use another HF_ENDPOINT`);
    },
  );
}

/** Fetches one file: continued where it broke, as often as it takes, also from one run to the next. */
async function download(
  url: string,
  file: RemoteFile,
  path: string,
  options: HubOptions,
  report: (bytes: number) => void,
): Promise<void> {
  // Named by its content: what is left of another version is never continued.
  const part = `${path}.${file.checksum.slice(0, 16)}.part`;
  await mkdir(dirname(part), { recursive: true });
  let have = await whole(part, file.size);
  if (have !== file.size || have === 0) {
    const request = () => ({
      url,
      method: "GET" as const,
      ...(have > 0 ? { headers: { range: `bytes=${have}-` } } : {}),
    });
    await exchange(request, options, async ({ response }, fed) => {
      // A server that knows no ranges sends everything again.
      if (response.status !== 206) have = 0;
      const output = await open(part, have > 0 ? "a" : "w");
      try {
        for await (const chunk of response.body ?? []) {
          fed();
          await output.writeFile(chunk);
          have += chunk.length;
          report(have);
        }
      } finally {
        await output.close();
        have = await whole(part, file.size);
      }
      if (have !== file.size) throw new Interrupted(`${have} of ${file.size} bytes came`);
    });
  }
  if ((await checksumOf(part, file)) !== file.checksum) {
    await rm(part, { force: true });
    throw new HoneError(`${url}: what came is not what the Hub listed (wrong checksum); it was deleted, try again`);
  }
  await rename(part, path);
}

/** Bytes of a part that can be continued: none when it is longer than the file. */
async function whole(part: string, size: number): Promise<number> {
  const have = (await sizeOf(part)) ?? 0;
  return have <= size ? have : 0;
}

async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** SHA-256 of the content, or git's SHA-1 of a blob, as the listed checksum is. */
async function checksumOf(path: string, { checksum, size }: RemoteFile): Promise<string> {
  const hash = checksum.length === 64 ? createHash("sha256") : createHash("sha1").update(`blob ${size}\0`);
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) hash.update(chunk);
  return hash.digest("hex");
}
