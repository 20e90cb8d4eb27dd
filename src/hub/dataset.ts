/** Data sets from the Hub: the files of one repository that are asked for, each whole and checked. */
import { join } from "node:path";
import { HoneError } from "../util/index.js";
import { checksumOfLink, missingPart, RepositoryCache } from "./cache.js";
import { checksumOf, downloadFiles } from "./download.js";
import { listRepository } from "./listing.js";
import { type HubOptions, notHere } from "./options.js";

const REVISION = "main";

/** Some files of a data set. */
export interface AskedFiles {
  /** For people: "Parquet files". */
  readonly name: string;
  /** Which of those that are there. */
  choose(paths: readonly string[]): string[];
}

/**
 * Makes sure that files of a data set are on this machine.
 *
 * @param asked which of its files; all that are Parquet by default
 * @returns their paths, in the order of their names
 * @throws HoneError when the Hub cannot be reached, refuses, or delivers something else than it listed
 */
export async function fetchDataset(
  id: string,
  options: HubOptions,
  asked: AskedFiles = { name: "Parquet files", choose: (paths) => paths.filter(isParquet) },
): Promise<string[]> {
  const repository = { kind: "dataset", id } as const;
  const cache = new RepositoryCache(options.cache, repository);
  if (options.offline) {
    const commit = cache.commitOf(REVISION);
    const paths = commit === undefined ? [] : asked.choose(cache.files(commit));
    if (commit === undefined || paths.length === 0 || missingPart(paths)) throw notHere(id);
    const files = paths.map((path) => join(cache.snapshot(commit), path));
    for (const file of files) {
      const checksum = checksumOfLink(file);
      if (checksum !== undefined && (await checksumOf(file, checksum)) !== checksum) {
        throw new HoneError(`${file} is not what was downloaded: delete it, and run once without HF_HUB_OFFLINE`);
      }
    }
    return files;
  }
  const listing = await listRepository(repository, REVISION, options);
  const paths = asked.choose(listing.files.map(({ path }) => path));
  if (paths.length === 0) throw new HoneError(`${id} has no ${asked.name}`);
  const folder = await downloadFiles(listing, paths, options);
  cache.nameCommit(REVISION, listing.commit);
  return paths.map((path) => join(folder, path));
}

const isParquet = (path: string) => path.endsWith(".parquet");
