/** Which models are on this machine, and how much room they take. */
import { existsSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { bytesIn, cachedRepositories, hubOptionsOf, RepositoryCache } from "../hub/index.js";
import { HoneError, packageRoot, tryLock, UsageError } from "../util/index.js";
import { refusedBecause } from "./architecture.js";
import { type CatalogueEntry, catalogue } from "./catalogue.js";
import { conversionsOf } from "./convert.js";
import { folderLabel, readReference, repositoryLabel } from "./reference.js";
import { DEFAULT_WEIGHTS, isComplete, type ModelConfig } from "./resolve.js";
import { ggufFiles } from "./source.js";

export interface ModelRow {
  /** As `--model` takes it. */
  readonly name: string;
  readonly repository: string | null;
  readonly parameters: number | null;
  readonly licence: string | null;
  readonly gated: boolean;
  readonly tool_calls: string | null;
  /** Everything that playing it needs has been downloaded. */
  readonly here: boolean;
  /** Bytes on the disk: downloads, and what was made of them. */
  readonly bytes: number;
  /** Finished GGUF files: downloaded, or made here. */
  readonly files: readonly string[];
}

type ListConfig = Omit<ModelConfig, "python">;

/** The catalogue, then other models of the cache that hone can use. */
export function listModels(config: ListConfig): ModelRow[] {
  const rows = [...catalogue()].map(([name, entry]) => rowOfEntry(name, entry, config));
  const named = new Set([...catalogue().values()].flatMap((entry) => [entry.repository, entry.gguf?.repository]));
  const { cache } = hubOptionsOf(config);
  for (const { id } of cachedRepositories(cache, "model")) {
    if (named.has(id)) continue;
    const state = stateOf(id, config);
    if (state.here) rows.push({ ...unknownAbout, name: id, repository: id, ...state });
  }
  return rows;
}

const unknownAbout = { parameters: null, licence: null, gated: false, tool_calls: null };

function rowOfEntry(name: string, entry: CatalogueEntry, config: ListConfig): ModelRow {
  const about = {
    name,
    repository: entry.repository ?? null,
    parameters: entry.parameters,
    licence: entry.licence,
    gated: entry.gated,
    tool_calls: entry.toolCalls,
  };
  if (entry.path !== undefined) {
    const file = join(packageRoot, "models", entry.path);
    return { ...about, here: true, bytes: statSync(file).size, files: [file] };
  }
  const states = repositoriesOf(entry).map((id) => stateOf(id, config));
  return {
    ...about,
    here: states.some(({ here }) => here),
    bytes: states.reduce((sum, { bytes }) => sum + bytes, 0),
    files: states.flatMap(({ files }) => files),
  };
}

const repositoriesOf = ({ repository, gguf }: CatalogueEntry) =>
  [repository, gguf?.repository].filter((id) => id !== undefined);

/** What is here of a repository. */
function stateOf(id: string, config: ListConfig): Pick<ModelRow, "here" | "bytes" | "files"> {
  const cache = new RepositoryCache(hubOptionsOf(config).cache, { kind: "model", id });
  const made = conversionsOf(repositoryLabel(id), config.home);
  const commit = cache.commitOf("main");
  const paths = commit === undefined ? [] : cache.files(commit);
  const folder = commit === undefined ? "" : cache.snapshot(commit);
  const files = [...ggufFiles(paths).map((path) => join(folder, path)), ...made.map(({ file }) => file)];
  return {
    here: files.length > 0 || (isComplete(paths) && isTaken(folder)),
    bytes: bytesIn(cache.folder) + made.reduce((sum, { bytes }) => sum + bytes, 0),
    files,
  };
}

function isTaken(folder: string): boolean {
  try {
    return refusedBecause(JSON.parse(readFileSync(join(folder, "config.json"), "utf8"))) === undefined;
  } catch (error) {
    // No model of anybody's: the list goes on without it.
    if (error instanceof SyntaxError || error instanceof TypeError) return false;
    throw error;
  }
}

/** All that is known of one model without asking anybody. Throws UsageError for names that mean nothing. */
export function showModel(reference: string, config: ListConfig): ModelRow & { description: string | null } {
  const entry = catalogue().get(reference);
  if (entry) return { ...rowOfEntry(reference, entry, config), description: entry.description ?? null };
  const known = readReference(reference, config.weights ?? DEFAULT_WEIGHTS);
  const about = { ...unknownAbout, name: reference, description: null };
  if (known.kind === "hub") return { ...about, repository: known.repository, ...stateOf(known.repository, config) };
  const made = known.kind === "folder" ? conversionsOf(folderLabel(known.path), config.home) : [];
  const own = known.kind === "folder" ? bytesIn(known.path) : statSync(known.path).size;
  return {
    ...about,
    repository: null,
    here: true,
    bytes: own + made.reduce((sum, { bytes }) => sum + bytes, 0),
    files: known.kind === "folder" ? made.map(({ file }) => file) : [known.path],
  };
}

export interface Removed {
  readonly name: string;
  readonly bytes: number;
  readonly removed: readonly string[];
}

/**
 * Removes what was downloaded of a model, and what was made of it. Of a folder of the user's own, the latter alone.
 * @throws UsageError when there is nothing to remove
 */
export function removeModel(reference: string, config: ListConfig): Removed {
  const entry = catalogue().get(reference);
  const known = readReference(reference, config.weights ?? DEFAULT_WEIGHTS);
  if (known.kind === "file")
    throw new UsageError(`${reference} is a file that hone neither downloaded nor made; it stays`);
  const ids = entry ? repositoriesOf(entry) : known.kind === "hub" ? [known.repository] : [];
  const { cache: folder } = hubOptionsOf(config);
  const caches = ids.map((id) => new RepositoryCache(folder, { kind: "model", id }));
  const labels = known.kind === "folder" ? [folderLabel(known.path)] : ids.map(repositoryLabel);
  const made = labels.flatMap((label) => conversionsOf(label, config.home));
  const downloaded = caches.filter((cache) => existsSync(cache.folder));
  if (made.length === 0 && downloaded.length === 0) throw new UsageError(`nothing of ${reference} is here`);
  let bytes = 0;
  for (const cache of downloaded) {
    const lock = existsSync(cache.lockFile) ? tryLock(cache.lockFile) : { close: () => undefined };
    if (!lock) throw new HoneError(`${reference} is being downloaded by another process; end that first`);
    try {
      bytes += bytesIn(cache.folder);
      rmSync(cache.folder, { recursive: true, force: true });
    } finally {
      lock.close();
    }
  }
  for (const { file, bytes: size } of made) {
    rmSync(file, { force: true });
    bytes += size;
  }
  return {
    name: reference,
    bytes,
    removed: [...downloaded.map((cache) => cache.folder), ...made.map(({ file }) => file)],
  };
}
