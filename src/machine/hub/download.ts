/**
 * Downloads files of a repository into the shared cache: resumed after each interruption, also in a later process,
 * checked by size and checksum, and put in place when complete.
 */
import { createHash } from "node:crypto";
import { createReadStream, statSync } from "node:fs";
import { mkdir, open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { flush, moveDurably } from "../../core/util/files.js";
import { withLock } from "../../core/util/lock.js";
import { needDisk, sizeText } from "../plan/machine.js";
import { RepositoryCache } from "./cache.js";
import { exchange, Interrupted } from "./http.js";
import { type HubOptions, rootOf } from "./hub-options.js";
import { addressOf, describe, type Listing, type RemoteFile } from "./listing.js";

/** Downloads from this size (bytes) on are announced. */
const WORTH_SAYING = 10e6;

/**
 * Makes sure that some files of a commit are in the cache.
 *
 * @returns the folder that contains them under their names
 * @throws HoneError when the disk is too small, the Hub cannot be reached or refuses, or the content differs from the
 * listing
 */
export async function downloadFiles(listing: Listing, paths: readonly string[], options: HubOptions): Promise<string> {
  const { repository, commit } = listing;
  const { id } = repository;
  const cache = new RepositoryCache(options.cache, repository);
  const waiting = () => options.log?.(`waiting for another process that downloads ${id}`);
  const placeOf = ({ path }: RemoteFile) => join(cache.snapshot(commit), path);
  const fetchMissing = async () => {
    const files: RemoteFile[] = [];
    for (const path of paths) files.push(await describe(listing, path, options));
    const have = files.map((file) => (sizeOf(placeOf(file)) === file.size ? file.size : bytesHere(cache, file)));
    const total = sum(files.map(({ size }) => size));
    const missing = total - sum(have);
    if (missing > 0)
      needDisk(options.cache, missing, id, "set HF_HOME to a folder of a larger disk", options.freeBytes);
    if (missing >= WORTH_SAYING) options.log?.(`downloading ${sizeText(missing)} of ${id} from ${rootOf(options)}`);
    let done = 0;
    for (const [index, file] of files.entries()) {
      if (sizeOf(placeOf(file)) !== file.size) {
        const report = (bytes: number) =>
          options.onProgress?.({ repository: id, file: file.path, done: done + bytes, total });
        // Reported before the first byte arrives, with the bytes already here.
        report(have[index] as number);
        await download(listing, file, cache, options, report);
        cache.link(commit, file.path, file.checksum);
      }
      done += file.size;
    }
  };
  await withLock(cache.lockFile, waiting, fetchMissing, options.signal);
  return cache.snapshot(commit);
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size;

/** Bytes of a file's content that are here already: all of it, or of a partial file that can be resumed. */
function bytesHere(cache: RepositoryCache, file: RemoteFile): number {
  return sizeOf(cache.blob(file.checksum)) === file.size ? file.size : partHere(cache, file);
}

/** Bytes of the partial file alone: Python may complete the content meanwhile. */
function partHere(cache: RepositoryCache, file: RemoteFile): number {
  const have = sizeOf(partOf(cache, file)) ?? 0;
  return have <= file.size ? have : 0;
}

/**
 * Named by checksum, so that a partial file of another version is never resumed. Python's partial files are not used.
 */
const partOf = (cache: RepositoryCache, { checksum }: RemoteFile) => cache.blob(`${checksum}.hone.incomplete`);

async function download(
  listing: Listing,
  file: RemoteFile,
  cache: RepositoryCache,
  options: HubOptions,
  report: (bytes: number) => void,
): Promise<void> {
  const blob = cache.blob(file.checksum);
  if (sizeOf(blob) === file.size) return;
  const url = addressOf(listing, file.path, options);
  const { repository, revision } = listing;
  const part = partOf(cache, file);
  await mkdir(dirname(part), { recursive: true });
  let have = partHere(cache, file);
  if (have !== file.size || have === 0) {
    const rest = () => (have > 0 ? { headers: { range: `bytes=${have}-` } } : {});
    const request = () => ({ url, repository, revision, ...rest() });
    // A server without range support begins again each time; repeated bytes are not progress.
    let furthest = have;
    await exchange(request, options, async (response, received) => {
      if (response.status !== 206) have = 0;
      const output = await open(part, have > 0 ? "a" : "w");
      try {
        for await (const chunk of response.body ?? []) {
          if (have + chunk.length > file.size) {
            await output.truncate(0);
            throw new HoneError(
              `${url} answers with more than the ${file.size} bytes that the Hub lists: try again later, or set HF_ENDPOINT to a mirror`,
            );
          }
          await output.writeFile(chunk);
          have += chunk.length;
          received(have > furthest);
          furthest = Math.max(furthest, have);
          report(have);
        }
      } finally {
        await output.close();
        have = partHere(cache, file);
      }
      if (have !== file.size) throw new Interrupted(`${have} of ${file.size} bytes came`);
    });
  }
  if ((await checksumOf(part, file.checksum)) !== file.checksum) {
    await rm(part, { force: true });
    throw new HoneError(`${url}: what came is not what the Hub listed (wrong checksum); it was deleted, try again`);
  }
  flush(part);
  moveDurably(part, blob);
}

/** Checksum of a file, SHA-256 or git's SHA-1 of a blob, chosen to match `like`. */
export async function checksumOf(path: string, like: string): Promise<string> {
  const hash = like.length === 64 ? createHash("sha256") : createHash("sha1").update(`blob ${statSync(path).size}\0`);
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) hash.update(chunk);
  return hash.digest("hex");
}
