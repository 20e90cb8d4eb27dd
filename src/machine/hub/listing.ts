/** The file listing of a repository's commit, from the Hub or a mirror: names, sizes and checksums. */
import { z } from "zod";
import { HoneError } from "../../core/util/errors.js";
import { textWithin } from "../../serve/openai/bounded.js";
import { sizeText } from "../plan/machine.js";
import { checkPath, type Repository } from "./cache.js";
import { exchange, pageOf } from "./http.js";
import { type HubOptions, notHere, rootOf } from "./hub-options.js";

/** Bytes of an answer at most: some 300,000 files. */
const MOST = 64 << 20;

/** Large files have the SHA-256 of their content, small ones git's SHA-1 of it. Some mirrors list names only. */
const answerSchema = z.object({
  sha: z.string().regex(/^[0-9a-f]{40}$/),
  siblings: z.array(
    z.object({
      rfilename: z.string(),
      size: z.number().int().nonnegative().nullish(),
      blobId: z.string().nullish(),
      lfs: z.object({ sha256: z.string() }).nullish(),
    }),
  ),
  /** Fields that the Hub read from a GGUF file's header. */
  gguf: z.object({ architecture: z.string().nullish() }).loose().nullish(),
});

const fileSchema = z.object({
  path: z.string(),
  size: z.number().int().nonnegative(),
  checksum: z.string().regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/),
});

export type RemoteFile = z.infer<typeof fileSchema>;

export interface Listing {
  readonly repository: Repository;
  /** The requested revision, e.g. "main". */
  readonly revision: string;
  readonly commit: string;
  /** Some mirrors list names only. */
  readonly files: readonly (Pick<RemoteFile, "path"> & {
    readonly [K in keyof RemoteFile]?: RemoteFile[K] | undefined;
  })[];
  /** Architecture of the repository's GGUF files, if the Hub states it. */
  readonly ggufArchitecture: string | undefined;
}

const encoded = (path: string) => path.split("/").map(encodeURIComponent).join("/");

export function addressOf({ repository, commit }: Listing, path: string, options: HubOptions): string {
  return `${pageOf(repository, options)}/resolve/${commit}/${encoded(path)}`;
}

/** @throws HoneError when the Hub cannot be reached or refuses, with the reason and how to get access */
export async function listRepository(repository: Repository, revision: string, options: HubOptions): Promise<Listing> {
  if (options.offline) throw notHere(repository.id);
  const url = `${rootOf(options)}/api/${repository.kind}s/${repository.id}/revision/${encodeURIComponent(revision)}?blobs=true`;
  const answer = await exchange(
    () => ({ url, repository, revision }),
    options,
    async (response) => {
      const text = await textWithin(response, MOST);
      if (text !== undefined) return text;
      throw new HoneError(`${url} answers with more than ${sizeText(MOST)} in place of a listing: check HF_ENDPOINT`);
    },
  );
  let parsed: z.infer<typeof answerSchema>;
  try {
    parsed = answerSchema.parse(JSON.parse(answer));
  } catch (error) {
    throw new HoneError(`${url} did not answer with the listing of a repository: check HF_ENDPOINT`, { cause: error });
  }
  const files = parsed.siblings.map(({ rfilename, size, blobId, lfs }) => ({
    path: checkPath(rfilename),
    size: size ?? undefined,
    checksum: lfs?.sha256 ?? blobId ?? undefined,
  }));
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { repository, revision, commit: parsed.sha, files, ggufArchitecture: parsed.gguf?.architecture ?? undefined };
}

/** A listed file with size and checksum, taken from the file's HTTP headers if the listing lacks them. */
export async function describe(listing: Listing, path: string, options: HubOptions): Promise<RemoteFile> {
  const listed = listing.files.find((file) => file.path === path);
  if (!listed) throw new HoneError(`${listing.repository.id} has no file ${path}`);
  const known = fileSchema.safeParse(listed);
  if (known.success) return known.data;
  const url = addressOf(listing, path, options);
  const { repository, revision } = listing;
  return await exchange(
    () => ({ url, method: "HEAD", repository, revision }),
    options,
    async ({ headers }) => {
      // x-linked-etag belongs to the file if the answer is a redirect or a Git LFS pointer.
      const tag = headers.get("x-linked-etag") ?? headers.get("etag") ?? "";
      // The length of a redirect is that of its own content.
      const length = headers.has("location") ? null : headers.get("content-length");
      const size = Number(headers.get("x-linked-size") ?? length ?? Number.NaN);
      const file = fileSchema.safeParse({ path, size, checksum: tag.replace(/^(?:W\/)?"|"$/g, "") });
      if (file.success) return file.data;
      throw new HoneError(
        `${url} comes without its size or a checksum, so it could not be trusted: use another HF_ENDPOINT`,
      );
    },
  );
}
