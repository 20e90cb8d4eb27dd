/** Lists the models on this machine with their disk usage. */
import { existsSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { tryLock } from "../../core/util/lock.js";
import type { ModelShape } from "../../engine/models.js";
import { ARCHITECTURES } from "../architectures.js";
import { bytesIn, cachedModels, RepositoryCache } from "../hub/cache.js";
import { hubOptionsOf } from "../hub/hub-options.js";
import { catalogue, DEFAULT_WEIGHTS, shapeOf, toolCallsOf, type Weights } from "./catalogue.js";
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

const weightsOf = ({ weights = DEFAULT_WEIGHTS }: ListConfig): Weights => weights;

type Meant = readonly [ModelReference, ...ModelReference[]];

const onHub = (repository: string) => ({ kind: "hub", repository, revision: "main", file: undefined }) as const;

/** What a name stands for. A model of the catalogue may be two repositories: its maker's safetensors, and GGUF files. */
function meantBy(name: string, config: ListConfig): Meant {
  const entry = catalogue().get(name);
  if (!entry || !("repository" in entry)) return [readReference(name, weightsOf(config))];
  return [onHub(entry.repository), ...(entry.gguf ? [onHub(entry.gguf.repository)] : [])];
}

const cacheOf = (repository: string, config: ListConfig) =>
  new RepositoryCache(hubOptionsOf(config).cache, { kind: "model", id: repository });

/** Where a model is downloaded to. */
function downloadOf(known: Exclude<ModelReference, { path: string }>, config: ListConfig) {
  if (known.kind === "hub") return cacheOf(known.repository, config);
  return { folder: wheelFolder(known), lockFile: wheelLock(known) };
}

/** Lists the catalogue, then other usable models in the cache. */
export async function listModels(config: ListConfig): Promise<ModelRow[]> {
  const named = [...catalogue().keys()].map((name) => ({ name, meant: meantBy(name, config) }));
  const rows = await Promise.all(named.map(({ name, meant }) => rowOf(name, meant, config)));
  const known = new Set(named.flatMap(({ meant }) => meant.map((one) => one.kind === "hub" && one.repository)));
  for (const id of cachedModels(hubOptionsOf(config).cache)) {
    if (known.has(id)) continue;
    const row = await rowOf(id, [onHub(id)], config);
    // Repositories that hone cannot use belong to other programs.
    if (row.shape) rows.push(row);
  }
  return rows;
}

/** Everything known of one model without network access. Throws UsageError for an unknown name. */
export async function showModel(reference: string, config: ListConfig): Promise<ModelShown> {
  const entry = catalogue().get(reference);
  const row = await rowOf(reference, meantBy(reference, config), config);
  return {
    ...row,
    description: entry && "path" in entry ? entry.description : null,
    tested: testedOf(entry, row.shape?.architecture),
  };
}

async function rowOf(name: string, meant: Meant, config: ListConfig): Promise<ModelRow> {
  const entry = catalogue().get(name);
  const states = meant.map((known) => stateOf(known, config));
  const files = states.flatMap((state) => state.files);
  // A file that is here and plays as it is has the shape of its header.
  const isKnown = entry && !("path" in entry) && ("repository" in entry || config.weights !== undefined || !files[0]);
  const shape = isKnown ? shapeOf(entry, weightsOf(config)) : await shapeIn(states[0]?.folder, files[0], config);
  return {
    name,
    repository: meant[0].kind === "hub" ? meant[0].repository : null,
    parameters: shape?.parameters ?? null,
    licence: entry?.licence ?? null,
    gated: (entry && "gated" in entry && entry.gated) ?? false,
    tool_calls: entry ? toolCallsOf(entry) : null,
    here: states.some(({ here }) => here),
    bytes: states.reduce((sum, { bytes }) => sum + bytes, 0),
    files,
    shape,
  };
}

/** Shape of a model that is here: from its configuration, or from its file if that is usable. */
async function shapeIn(folder: string | undefined, file: string | undefined, config: ListConfig) {
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

interface State extends Pick<ModelRow, "here" | "bytes" | "files"> {
  /** The folder of a complete model in Hugging Face format. */
  readonly folder: string | undefined;
}

/** What of a model is on this machine, with what was made of it. */
function stateOf(known: ModelReference, config: ListConfig): State {
  const { files, folder } = sourceOf(known, config);
  const made = conversionsOf(labelOf(known), config.home);
  const place = "path" in known ? known.path : downloadOf(known, config).folder;
  return {
    here: known.kind === "folder" || folder !== undefined || files.length + made.length > 0,
    bytes: made.reduce((sum, one) => sum + one.bytes, known.kind === "file" ? statSync(place).size : bytesIn(place)),
    files: [...files, ...made.map(({ file }) => file)],
    folder,
  };
}

/** Its GGUF files, and its folder if that is complete. */
function sourceOf(known: ModelReference, config: ListConfig): { files: string[]; folder?: string | undefined } {
  if (known.kind === "file") return { files: [known.path] };
  if (known.kind === "wheel") return { files: [wheelFile(known)].filter((file) => existsSync(file)) };
  if (known.kind === "folder") return { files: [], folder: isUsable(known.path, known.path) ? known.path : undefined };
  const { repository, revision, file } = known;
  const cache = cacheOf(repository, config);
  const commit = cache.commitOf(revision);
  if (commit === undefined) return { files: [] };
  const [folder, paths] = [cache.snapshot(commit), cache.files(commit)];
  const files = ggufFiles(paths).filter((path) => (file === undefined ? !isPart(path) : path === file));
  const isWhole = file === undefined && isComplete(paths) && isUsable(folder, repository);
  return { files: files.map((path) => join(folder, path)), folder: isWhole ? folder : undefined };
}

/**
 * Removes a model's downloads and conversions. For a file or folder of the user's own, only the conversions.
 * @throws UsageError when there is nothing to remove
 */
export function removeModel(name: string, config: ListConfig) {
  const meant = meantBy(name, config);
  const downloads = meant
    .flatMap((known) => ("path" in known ? [] : [downloadOf(known, config)]))
    .filter(({ folder }) => existsSync(folder));
  const made = meant.flatMap((known) => conversionsOf(labelOf(known), config.home));
  if (made.length === 0 && downloads.length === 0) {
    throw new UsageError(
      meant[0].kind === "file"
        ? `${name} is a file that hone neither downloaded nor made; it stays`
        : `nothing of ${name} is here`,
    );
  }
  let bytes = made.reduce((sum, one) => sum + one.bytes, 0);
  for (const { folder, lockFile } of downloads) {
    using lock = existsSync(lockFile) ? tryLock(lockFile) : null;
    if (lock === undefined) throw new HoneError(`${name} is being downloaded by another process; end that first`);
    bytes += bytesIn(folder);
    rmSync(folder, { recursive: true, force: true });
  }
  const files = made.map(({ file }) => file);
  for (const file of files) rmSync(file, { force: true });
  return { name, bytes, removed: [...downloads.map(({ folder }) => folder), ...files] };
}
