/** The files of a model that another machine needs, at places where hone finds them there without a network. */
import { basename, dirname, join, relative } from "node:path";
import { checksumOfLink, folderName, type Repository, RepositoryCache } from "../hub/cache.js";
import { hubOptionsOf } from "../hub/hub-options.js";
import type { Entry } from "../pack/archive.js";
import { DEFAULT_WEIGHTS } from "./catalogue.js";
import type { ModelIo } from "./io.js";
import { nameOf, readReference } from "./reference.js";
import { resolveWithSource } from "./resolve.js";
import { aboutFiles, weightFiles } from "./source.js";
import type { ModelConfig } from "./wanted.js";

/** Below the folder that hone is started in: its home, the Hub's cache, and files of no repository. */
export const PORTABLE = { home: ".hone", cache: "hub", models: "models" } as const;

export interface PortableModel {
  /** How `--model` names it there. */
  readonly name: string;
  readonly files: readonly Entry[];
}

/**
 * Downloads and converts it first, where that was not done. A model of the Hub keeps its name: its files lie in a cache
 * of the Hub's form, and its conversion in the home folder. A file or folder of this machine is one file there.
 *
 * @throws as `resolveModel`
 */
export async function portableModel(reference: string, config: ModelConfig, io: ModelIo): Promise<PortableModel> {
  const { file, source, original } = await resolveWithSource(reference, config, io);
  const known = readReference(reference, config.weights ?? DEFAULT_WEIGHTS);
  if (known.kind !== "hub") {
    const path = `${PORTABLE.models}/${known.kind === "file" ? basename(file) : `${nameOf(known)}.gguf`}`;
    return { name: path, files: [{ path, file }] };
  }
  const repository = { kind: "model", id: known.repository } as const;
  const cache = new RepositoryCache(hubOptionsOf(config).cache, repository);
  const commit = cache.commitOf(known.revision);
  if (commit === undefined) throw new Error(`${reference} was resolved and is not in the cache`);
  const whole = original ?? file;
  const paths = source === undefined ? [relative(cache.snapshot(commit), whole)] : neededOf(cache.files(commit));
  const files = inCache(cache, repository, commit, paths);
  if (known.revision !== commit) {
    files.push({ path: `${placeOf(repository)}/refs/${known.revision}`, text: commit });
  }
  if (source !== undefined || original !== undefined)
    files.push({ path: `${PORTABLE.home}/gguf/${basename(file)}`, file });
  return { name: reference, files };
}

const placeOf = (repository: Repository) => `${PORTABLE.cache}/${folderName(repository)}`;

const neededOf = (paths: readonly string[]) => [...aboutFiles(paths), ...weightFiles(paths)];

/** Names of a snapshot as links to blobs, as they are here: a conversion is called after the blobs' names. */
function inCache(cache: RepositoryCache, repository: Repository, commit: string, paths: readonly string[]): Entry[] {
  const place = placeOf(repository);
  return paths.flatMap((path): Entry[] => {
    const file = join(cache.snapshot(commit), path);
    const name = `${place}/snapshots/${commit}/${path}`;
    const checksum = checksumOfLink(file);
    if (checksum === undefined) return [{ path: name, file }];
    const blob = `${place}/blobs/${checksum}`;
    return [
      { path: blob, file: cache.blob(checksum) },
      { path: name, link: relative(dirname(name), blob) },
    ];
  });
}
