/** From `--model` to the GGUF file that the engine loads: found, downloaded or converted. */
import { basename, join } from "node:path";
import type { Config } from "../config/config.js";
import { currentDevice } from "../device/device.js";
import type { ModelShape } from "../engine/models.js";
import type { HubConfig } from "../hub/options.js";
import type { Weights } from "./catalogue.js";
import { type ConversionSource, converted } from "./convert.js";
import { withWeights } from "./dequantise.js";
import { fromHub } from "./from-hub.js";
import { fromWheel } from "./from-wheel.js";
import { checkOneFile, theOneOf } from "./gguf-files.js";
import type { ModelIo } from "./io.js";
import {
  fileLabel,
  folderLabel,
  type ModelReference,
  nameOf,
  readReference,
  repositoryLabel,
  wheelLabel,
} from "./reference.js";
import { checkAbout, filesOf, ggufFiles, needWeights, readJson, shapeInFolder, weightFiles } from "./source.js";

/** Options for resolving and fetching a model. */
export type ModelConfig = HubConfig & Pick<Config, "weights" | "home"> & Partial<Pick<Config, "python" | "torchIndex">>;

export const DEFAULT_WEIGHTS: Weights = "f16";

/** Compute capability of Ampere, times ten: the first cards that multiply bf16. */
const AMPERE = 80;

/**
 * Weights of a conversion that nobody named: bf16 where the model has it and the card multiplies it. They are then those that
 * the model was published with, and CUDA sums their products in 32 bits as they are; f16 is converted to f32 for it in every pass
 * (src/engine/sums.ts).
 *
 * @param folder in Hugging Face format
 * @param capability of the NVIDIA card in use, times ten; undefined without one
 */
export function defaultWeights(folder: string, capability = currentDevice().card?.capability): Weights {
  if (capability === undefined || capability < AMPERE) return DEFAULT_WEIGHTS;
  const config = readJson(folder, "config.json", folder);
  // Newer versions of transformers write `dtype`.
  return (config.dtype ?? config.torch_dtype) === "bfloat16" ? "bf16" : DEFAULT_WEIGHTS;
}

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

export interface ResolvedModel {
  /** The GGUF file that the engine loads. */
  readonly file: string;
  /** The Hugging Face folder that it was converted from, if any. */
  readonly source: string | undefined;
  /** The GGUF file that it was written from with other weights, if any. */
  readonly original: string | undefined;
}

/** As {@link resolveModel}, with what the file was made from. */
export async function resolveWithSource(
  reference: string,
  config: ModelConfig,
  io: ModelIo,
  { renew = false, inspect }: ResolveOptions = {},
): Promise<ResolvedModel> {
  const known = readReference(reference, config.weights ?? DEFAULT_WEIGHTS);
  const { home, python, torchIndex } = config;
  const inspectIn = (folder: string) => {
    const shape = inspect && shapeInFolder(folder, config.weights ?? defaultWeights(folder));
    if (shape) inspect?.(shape);
  };
  const found =
    known.kind === "hub"
      ? await fromHub(known, config, io, renew, inspectIn)
      : known.kind === "wheel"
        ? await fromWheel(known, config, io)
        : onDisk(known);
  const given = { home, python, torchIndex };
  if (typeof found !== "string") {
    inspectIn(found.folder);
    const options = { ...given, weights: config.weights ?? defaultWeights(found.folder) };
    return { file: await converted(found, options, io), source: found.folder, original: undefined };
  }
  if (config.weights === undefined) return { file: found, source: undefined, original: undefined };
  const label =
    known.kind === "hub"
      ? repositoryLabel(known.repository)
      : known.kind === "wheel"
        ? wheelLabel(known)
        : fileLabel(found);
  const file = await withWeights(found, label, { ...given, weights: config.weights }, io, inspect);
  return { file, source: undefined, original: file === found ? undefined : found };
}

function onDisk(reference: Extract<ModelReference, { path: string }>): string | ConversionSource {
  if (reference.kind === "file") {
    checkOneFile(reference.path, basename(reference.path));
    return reference.path;
  }
  const { path: folder } = reference;
  const paths = filesOf(folder);
  const files = ggufFiles(paths);
  if (weightFiles(paths).length === 0 && files.length > 0) return join(folder, theOneOf(files, folder, join));
  needWeights(paths, folder);
  checkAbout(folder, folder);
  return { folder, paths, name: nameOf(reference), label: folderLabel(folder) };
}
