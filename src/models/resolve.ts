/** From `--model` to the GGUF file that the engine loads: found, downloaded or converted. */
import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { type Config, flagOf, type OptionName } from "../config/index.js";
import { type ModelShape, modelShape } from "../engine/index.js";
import {
  downloadFiles,
  downloadLine,
  type HubOptions,
  HubUnreachable,
  hubOptionNames,
  hubOptionsOf,
  type Listing,
  listRepository,
  NotOnHub,
  notHere,
  Rate,
  RepositoryCache,
} from "../hub/index.js";
import { ARCHITECTURES } from "../learn/index.js";
import { HoneError, nearest, UsageError } from "../util/index.js";
import { catalogue, type Weights } from "./catalogue.js";
import { type ConversionSource, converted } from "./convert.js";
import type { ModelIo } from "./io.js";
import { folderLabel, type ModelReference, nameOf, readReference, repositoryLabel } from "./reference.js";
import {
  aboutFiles,
  checkAbout,
  checkConfig,
  ggufFiles,
  hasVocabulary,
  isComplete,
  isUsable,
  needWeights,
  shapeInFolder,
  weightFiles,
  whyUnusable,
} from "./source.js";

/** Options for resolving and fetching a model. */
export const modelOptions = ["weights", ...hubOptionNames] as const satisfies readonly OptionName[];

export type ModelConfig = Pick<Config, (typeof modelOptions)[number] | "home"> &
  Partial<Pick<Config, "python" | "torchIndex">>;

export const DEFAULT_WEIGHTS: Weights = "f16";

export interface ResolveOptions {
  /** Asks the Hub for a newer commit of the repository even if all files are here. */
  readonly renew?: boolean;
  /**
   * Called with the model's shape once its configuration is known, before weights are fetched or converted; may throw
   * to refuse it.
   */
  inspect?(shape: ModelShape): void;
}

/**
 * Returns the GGUF file of a model. A complete local copy is used without any request.
 *
 * @throws UsageError for an unknown name
 * @throws HoneError when the model cannot be fetched or used: the reason in one line, before any long work
 */
export async function resolveModel(
  reference: string,
  config: ModelConfig,
  io: ModelIo,
  options?: ResolveOptions,
): Promise<string> {
  return (await resolveWithSource(reference, config, io, options)).file;
}

/** As {@link resolveModel}, with the Hugging Face folder that the file was converted from, if any. */
export async function resolveWithSource(
  reference: string,
  config: ModelConfig,
  io: ModelIo,
  { renew = false, inspect }: ResolveOptions = {},
): Promise<{ readonly file: string; readonly source: string | undefined }> {
  const known = readReference(reference, config.weights ?? DEFAULT_WEIGHTS);
  const { home, weights = DEFAULT_WEIGHTS, python, torchIndex } = config;
  const inspectIn = (folder: string) => {
    const shape = inspect && shapeInFolder(folder, weights);
    if (shape) inspect?.(shape);
  };
  const found = known.kind === "hub" ? await fromHub(known, config, io, renew, inspectIn) : onDisk(known);
  if (typeof found !== "string") {
    inspectIn(found.folder);
    const options = { home, weights, python, torchIndex };
    return { file: await converted(found, options, io), source: found.folder };
  }
  if (config.weights !== undefined) await checkWeights(found, config.weights);
  return { file: found, source: undefined };
}

/** Refuses --weights for a GGUF file that has other ones. */
async function checkWeights(file: string, weights: Weights): Promise<void> {
  const { weightType } = await modelShape(file);
  if (weightType.toLowerCase() === weights) return;
  throw new UsageError(
    `${flagOf("weights")} ${weights}: ${file} is a finished file with ${weightType.toLowerCase()} weights; leave it out, or give the model as safetensors`,
  );
}

function onDisk(reference: Extract<ModelReference, { path: string }>): string | ConversionSource {
  if (reference.kind === "file") {
    checkOneFile(reference.path, basename(reference.path));
    return reference.path;
  }
  const { path: folder } = reference;
  const paths = readdirSync(folder);
  const files = ggufFiles(paths);
  if (weightFiles(paths).length === 0 && files.length > 0) return join(folder, theOneOf(files, folder, join));
  needWeights(paths, folder);
  checkAbout(folder, folder);
  return { folder, paths, name: nameOf(reference), label: folderLabel(folder) };
}

/** Whether a GGUF file is one of several that a model was split into. */
export const isPart = (file: string) => /-\d{5}-of-\d{5}\.gguf$/i.test(file);

/** llama.cpp would read all parts of a split model, the learner would not. */
function checkOneFile(file: string, name: string): void {
  if (!isPart(file)) return;
  throw new HoneError(
    `${name} is one part of a model; hone takes models in one file (join them with llama-gguf-split)`,
  );
}

function theOneOf(files: readonly string[], place: string, written: (place: string, file: string) => string): string {
  const whole = files.filter((one) => !isPart(one));
  const [file, another] = whole;
  if (another !== undefined) {
    throw new UsageError(
      `${place} has several GGUF files; give one of them: ${whole.map((one) => written(place, one)).join(", ")}`,
    );
  }
  if (file !== undefined) return file;
  const [part] = files;
  if (part !== undefined) checkOneFile(part, `${part} of ${place}`);
  throw new HoneError(`${place} has no GGUF file`);
}

type HubReference = Extract<ModelReference, { kind: "hub" }>;

const written = (place: string, file: string) => `hf:${place}:${file}`;

async function fromHub(
  reference: HubReference,
  config: ModelConfig,
  io: ModelIo,
  renew: boolean,
  inspect: (folder: string) => void,
): Promise<string | ConversionSource> {
  const rate = new Rate();
  const hub: HubOptions = {
    ...hubOptionsOf(config),
    ...(io.signal ? { signal: io.signal } : {}),
    log: io.log,
    onProgress: (progress) => io.update(() => downloadLine(progress, rate)),
  };
  const repository = { kind: "model", id: reference.repository } as const;
  const cache = new RepositoryCache(hub.cache, repository);
  const local = localCopy(reference, cache);
  if (hub.offline && !local) throw offlineWithout(reference, cache);
  if (local && (hub.offline || (local.certain && !renew))) return local.use(config.weights);
  let listing: Listing;
  try {
    // With a local copy, wait less for the Hub.
    listing = await listRepository(repository, reference.revision, local && !renew ? { ...hub, retryDelay: 50 } : hub);
  } catch (error) {
    if (error instanceof NotOnHub) throw withNearest(error, repository.id);
    // With `renew`, an older local copy must not be used in place of the newest.
    if (!(error instanceof HubUnreachable)) throw error;
    if (!local || renew) {
      throw new HoneError(`${error.message}, or give --model a folder or a GGUF file of this machine`, {
        cause: error,
      });
    }
    io.log(`${error.message}; taking what was downloaded of ${repository.id} before`);
    return local.use(config.weights);
  }
  return download(reference, listing, config.weights, hub, cache, inspect);
}

/** Adds a repository name of the catalogue that is close to the one not found. */
function withNearest(error: NotOnHub, id: string): HoneError {
  const known = [...catalogue().values()].flatMap((entry) => ("path" in entry ? [] : [entry.repository]));
  const close = nearest(id, known);
  // The name comes from the catalogue itself, but the Hub in use does not have it.
  return close && close !== id ? new HoneError(`${error.message}; did you mean ${close}?`, { cause: error }) : error;
}

async function download(
  { repository, revision, file }: HubReference,
  listing: Listing,
  weights: Weights | undefined,
  hub: HubOptions,
  cache: RepositoryCache,
  inspect: (folder: string) => void,
): Promise<string | ConversionSource> {
  const paths = listing.files.map(({ path }) => path);
  const asGguf = file !== undefined || (weightFiles(paths).length === 0 && ggufFiles(paths).length > 0);
  if (asGguf) {
    const chosen = chooseGguf(ggufFiles(paths), repository, file, weights);
    const { ggufArchitecture: architecture } = listing;
    if (architecture !== undefined && !ARCHITECTURES.includes(architecture)) {
      throw new HoneError(
        `${repository} cannot be used: its architecture is ${architecture}; hone takes ${ARCHITECTURES.join(", ")}`,
      );
    }
    const folder = await downloadFiles(listing, [chosen], hub);
    cache.nameCommit(revision, listing.commit);
    return join(folder, chosen);
  }
  needWeights(paths, repository);
  // Fetch the small files first; they decide whether the large ones are worth fetching.
  const folder = await downloadFiles(listing, aboutFiles(paths), hub);
  // Recorded so that the reason for a refusal is known offline; a complete copy of an earlier commit stays in use.
  if (cache.commitOf(revision) === undefined) cache.nameCommit(revision, listing.commit);
  checkAbout(folder, repository);
  inspect(folder);
  await downloadFiles(listing, weightFiles(paths), hub);
  cache.nameCommit(revision, listing.commit);
  return sourceIn(folder, cache.files(listing.commit), repository);
}

/** Checks before the download, if the file's name states its weight type. */
function checkNamedWeights(file: string, weights: Weights | undefined): void {
  const said = /[-._]((?:b?f|fp|i?q)\d\w*)\.gguf$/i.exec(file)?.[1]?.toLowerCase().replace("fp", "f");
  if (weights === undefined || said === undefined || said === weights) return;
  throw new UsageError(
    `${flagOf("weights")} ${weights}: ${file} is a finished file with ${said} weights; leave it out, or give the model as safetensors`,
  );
}

/** @param weights requested weight type: file names may state theirs */
function chooseGguf(
  files: readonly string[],
  place: string,
  file: string | undefined,
  weights: Weights | undefined,
): string {
  if (file !== undefined) {
    if (files.includes(file)) {
      checkOneFile(file, file);
      checkNamedWeights(file, weights);
      return file;
    }
    throw new UsageError(
      files.length > 0
        ? `${place} has no file ${file}; it has ${files.join(", ")}`
        : `${place} has no file ${file}, and no GGUF file at all; give it as ${place}`,
    );
  }
  const spelling = weights === "f16" ? "fp?16" : weights;
  const fitting =
    weights === undefined ? [] : files.filter((one) => new RegExp(`\\b${spelling}\\.gguf$`, "i").test(one));
  return theOneOf(fitting.length === 1 ? fitting : files, place, written);
}

function sourceIn(folder: string, paths: readonly string[], repository: string): ConversionSource {
  return { folder, paths, name: repository, label: repositoryLabel(repository) };
}

/** The error for a model that is not available offline. Local files may show that the network would not help. */
function offlineWithout({ repository, revision, file }: HubReference, cache: RepositoryCache): HoneError {
  if (file !== undefined) return notHere(written(repository, file));
  const commit = cache.commitOf(revision);
  const paths = commit === undefined ? [] : cache.files(commit);
  if (commit === undefined || paths.length === 0) {
    return notHere(revision === "main" ? repository : `${repository}@${revision}`);
  }
  const folder = cache.snapshot(commit);
  // Architecture and missing base weights are the same on the Hub.
  if (paths.includes("config.json")) checkConfig(folder, repository);
  if (paths.includes("adapter_config.json") && !paths.includes("config.json")) needWeights(paths, repository);
  const remedy = "run once without HF_HUB_OFFLINE, which fetches the rest";
  // A file may be missing on the Hub as well: a base model has no chat template.
  const about = paths.includes("config.json") && hasVocabulary(paths);
  const refused = about ? whyUnusable(folder, repository) : undefined;
  return new HoneError(
    refused === undefined
      ? `${repository} was downloaded in part (${cache.folder}): ${remedy}`
      : `${refused}; if that was merely not downloaded (${cache.folder}), ${remedy}`,
  );
}

interface LocalCopy {
  /** Whether the Hub would give the same: of files fetched one by one, it may have others. */
  readonly certain: boolean;
  use(weights: Weights | undefined): string | ConversionSource;
}

/** The local copy of a repository, if it is complete enough to play. */
function localCopy({ repository, revision, file }: HubReference, cache: RepositoryCache): LocalCopy | undefined {
  const commit = cache.commitOf(revision);
  if (commit === undefined) return undefined;
  const folder = cache.snapshot(commit);
  const paths = cache.files(commit);
  if (file !== undefined) {
    if (!paths.includes(file)) return undefined;
    checkOneFile(file, file);
    return { certain: true, use: () => join(folder, file) };
  }
  if (isComplete(paths)) {
    if (!isUsable(folder, repository)) return undefined;
    return { certain: true, use: () => sourceIn(folder, paths, repository) };
  }
  const files = ggufFiles(paths);
  if (files.length === 0 || weightFiles(paths).length > 0) return undefined;
  return { certain: false, use: (weights) => join(folder, chooseGguf(files, repository, undefined, weights)) };
}
