/** Lists the models on this machine with their disk usage. */
import { existsSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { tryLock } from "../../core/util/lock.js";
import { type ModelShape, modelShape } from "../../engine/models.js";
import { ARCHITECTURES } from "../architectures.js";
import { bytesIn, cachedModels, RepositoryCache } from "../hub/cache.js";
import { hubOptionsOf } from "../hub/hub-options.js";
import { type CatalogueEntry, catalogue, DEFAULT_WEIGHTS, shapeOf, toolCallsOf, type Weights } from "./catalogue.js";
import { conversionsOf } from "./convert.js";
import { wheelFile, wheelFolder, wheelLock } from "./from-wheel.js";
import { isPart } from "./gguf-files.js";
import { conversingModel } from "./header.js";
import { labelOf, type ModelReference, readReference } from "./reference.js";
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
  for (const id of cachedModels(hubOptionsOf(config).cache)) {
    if (named.has(id)) continue;
    const row = await rowOfOther(id, onHub(id), config);
    // Repositories that hone cannot use belong to other programs.
    if (row.shape) rows.push(row);
  }
  return rows;
}

const weightsOf = ({ weights = DEFAULT_WEIGHTS }: ListConfig): Weights => weights;

const onHub = (repository: string) => ({ kind: "hub", repository, revision: "main", file: undefined }) as const;

async function rowOfEntry(name: string, entry: CatalogueEntry, config: ListConfig): Promise<ModelRow> {
  const about = { name, licence: entry.licence, tool_calls: toolCallsOf(entry) };
  if ("repository" in entry) {
    const states = repositoriesOf(entry).map((id) => stateOf(onHub(id), config));
    const shape = shapeOf(entry, weightsOf(config));
    return {
      ...about,
      repository: entry.repository,
      gated: entry.gated ?? false,
      parameters: shape.parameters,
      here: states.some(({ here }) => here),
      bytes: states.reduce((sum, { bytes }) => sum + bytes, 0),
      files: states.flatMap(({ files }) => files),
      shape,
    };
  }
  const { folder: _, ...state } = stateOf(readReference(name, weightsOf(config)), config);
  const [file] = state.files;
  // Without --weights the file plays as it is.
  const planned = "wheel" in entry && (config.weights !== undefined || file === undefined);
  const shape = planned ? shapeOf(entry, weightsOf(config)) : await modelShape(file as string);
  return { ...about, repository: null, gated: false, parameters: shape.parameters, ...state, shape };
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

/** What of a model is on this machine, with what was made of it. */
function stateOf(known: ModelReference, config: ListConfig): State {
  const { here, bytes, files, folder } = sourceState(known, config);
  const made = conversionsOf(labelOf(known), config.home);
  return {
    here: here || files.length > 0 || made.length > 0,
    bytes: made.reduce((sum, one) => sum + one.bytes, bytes),
    files: [...files, ...made.map(({ file }) => file)],
    folder,
  };
}

function sourceState(known: ModelReference, config: ListConfig): State {
  if (known.kind === "hub") {
    const cache = new RepositoryCache(hubOptionsOf(config).cache, { kind: "model", id: known.repository });
    const commit = cache.commitOf(known.revision);
    const paths = commit === undefined ? [] : cache.files(commit);
    const folder = commit === undefined ? "" : cache.snapshot(commit);
    const { file } = known;
    const files = ggufFiles(paths).filter((path) => (file === undefined ? !isPart(path) : path === file));
    const whole = file === undefined && isComplete(paths) && isUsable(folder, known.repository);
    return {
      here: whole,
      bytes: bytesIn(cache.folder),
      files: files.map((path) => join(folder, path)),
      folder: whole ? folder : undefined,
    };
  }
  if (known.kind === "wheel") {
    const files = [wheelFile(known)].filter((file) => existsSync(file));
    return { here: false, bytes: bytesIn(wheelFolder(known)), files, folder: undefined };
  }
  const { kind, path } = known;
  if (kind === "file") return { here: true, bytes: statSync(path).size, files: [path], folder: undefined };
  return { here: true, bytes: bytesIn(path), files: [], folder: isUsable(path, path) ? path : undefined };
}

/** Shape of a model that is here: from its configuration, or from its file if that is usable. */
async function shapeHere({ folder, files: [file] }: State, config: ListConfig): Promise<ModelShape | null> {
  const inFolder = folder === undefined ? undefined : shapeInFolder(folder, weightsOf(config));
  if (inFolder || file === undefined) return inFolder ?? null;
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
  const row = entry
    ? await rowOfEntry(reference, entry, config)
    : await rowOfOther(reference, readReference(reference, weightsOf(config)), config);
  return {
    ...row,
    description: entry && "path" in entry ? entry.description : null,
    tested: testedOf(entry, row.shape?.architecture),
  };
}

/** Of a model that the catalogue does not name. */
async function rowOfOther(name: string, known: ModelReference, config: ListConfig): Promise<ModelRow> {
  const state = stateOf(known, config);
  const { here, bytes, files } = state;
  const shape = await shapeHere(state, config);
  const repository = known.kind === "hub" ? known.repository : null;
  const parameters = shape?.parameters ?? null;
  return { name, repository, parameters, licence: null, gated: false, tool_calls: null, here, bytes, files, shape };
}

/**
 * Removes a model's downloads and conversions. For a file or folder of the user's own, only the conversions.
 * @throws UsageError when there is nothing to remove
 */
export function removeModel(reference: string, config: ListConfig) {
  const entry = catalogue().get(reference);
  const known = readReference(reference, weightsOf(config));
  const meant = entry && "repository" in entry ? repositoriesOf(entry).map(onHub) : [known];
  const downloads = meant
    .flatMap((one) => {
      if (one.kind === "wheel") return [{ folder: wheelFolder(one), lockFile: wheelLock(one) }];
      const { cache } = hubOptionsOf(config);
      return one.kind === "hub" ? [new RepositoryCache(cache, { kind: "model", id: one.repository })] : [];
    })
    .filter(({ folder }) => existsSync(folder));
  const made = meant.flatMap((one) => conversionsOf(labelOf(one), config.home));
  if (made.length === 0 && downloads.length === 0) {
    throw new UsageError(
      known.kind === "file"
        ? `${reference} is a file that hone neither downloaded nor made; it stays`
        : `nothing of ${reference} is here`,
    );
  }
  let bytes = 0;
  for (const { folder, lockFile } of downloads) {
    using lock = existsSync(lockFile) ? tryLock(lockFile) : null;
    if (lock === undefined) throw new HoneError(`${reference} is being downloaded by another process; end that first`);
    bytes += bytesIn(folder);
    rmSync(folder, { recursive: true, force: true });
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
