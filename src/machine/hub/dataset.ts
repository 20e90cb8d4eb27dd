/** Fetches data sets from the Hub: the requested files of one repository, complete and checked. */
import { join } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { checksumOfLink, missingPart, RepositoryCache } from "./cache.js";
import { checksumOf, downloadFiles } from "./download.js";
import { type HubOptions, notHere } from "./hub-options.js";
import { listRepository } from "./listing.js";

const REVISION = "main";

/** A selection of a data set's files. */
export interface AskedFiles {
  /** Name for messages: "Parquet files". */
  readonly name: string;
  /** Chooses among the repository's files. */
  choose(paths: readonly string[]): string[];
}

/**
 * Makes sure that files of a data set are on this machine.
 *
 * @param asked the selection; default: all Parquet files
 * @returns their paths, sorted by name
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
