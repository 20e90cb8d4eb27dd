/**
 * Writes the weights of a finished GGUF file anew as f16, bf16 or f32, so that engine and learner compute with the same
 * numbers. The result is kept beside the conversions of convert.ts.
 */
import { createHash } from "node:crypto";
import { basename } from "node:path";
import { flagOf } from "../../core/config/config.js";
import { READABLE_WEIGHTS } from "../../core/learn/types.js";
import { UsageError } from "../../core/util/errors.js";
import { type ModelHeader, modelHeader } from "../../engine/models.js";
import { BYTES, type Weights } from "./catalogue.js";
import {
  type ConversionOptions,
  contentKey,
  conversionError,
  conversionFile,
  madeOnce,
  needDiskFor,
  runWriting,
} from "./convert.js";
import type { ModelIo } from "./io.js";
import { converterPython } from "./program.js";

/** Types that no weight is rounded to in blocks. */
const WHOLE = ["F16", "BF16", "F32"];
/** Changes when the same source would be written otherwise. */
const FORM = "dequantised 1";

/** Types that a finished file can be written in. */
const isWritten = (weights: Weights) => WHOLE.includes(weights.toUpperCase());

/** Whether a file's weights are of this type already; vectors are F32 in every file. */
const isOf = ({ weightType, tensorTypes }: ModelHeader, weights: Weights) =>
  weightType === weights.toUpperCase() &&
  (!isWritten(weights) || tensorTypes.every((type) => type === weightType || type === "F32"));

/**
 * The file itself where its weights are of the requested type, else a copy with them.
 *
 * @param file a GGUF file
 * @param label prefix of the copy's name; unique for each file or repository
 * @param inspect called with the shape of the copy before it is made; may throw to refuse it
 * @throws UsageError for weights that a finished file cannot be written in, or that cannot be dequantised
 * @throws HoneError when the file is damaged or the disk too small
 */
export async function withWeights(
  file: string,
  label: string,
  options: ConversionOptions,
  io: ModelIo,
  inspect?: (header: ModelHeader) => void | Promise<void>,
): Promise<string> {
  const { weights, home } = options;
  const header = await modelHeader(file);
  if (isOf(header, weights)) return file;
  const has = header.weightType.toLowerCase();
  if (!isWritten(weights)) {
    throw new UsageError(
      `${flagOf("weights")} ${weights}: ${file} is a finished file with ${has} weights, which hone writes as f16, bf16 or f32 alone.\nGive one of them, leave it out, or give the model as safetensors`,
    );
  }
  const unreadable = header.tensorTypes.find((type) => !READABLE_WEIGHTS.includes(type));
  if (unreadable !== undefined) {
    throw new UsageError(
      `${flagOf("weights")} ${weights}: ${file} has ${unreadable.toLowerCase()} weights, which cannot be dequantised; give the model as safetensors, or another file`,
    );
  }
  const bytes = Math.round(header.parameters * BYTES[weights]);
  await inspect?.({ ...header, bytes, weightType: weights.toUpperCase() });
  const key = createHash("sha256")
    .update(`${FORM}\0${await contentKey(file)}`)
    .digest("hex");
  const target = conversionFile(label, weights, key, home);
  const name = basename(file);
  return await madeOnce(target, name, io, async (part) => {
    needDiskFor(name, target, bytes);
    const python = await converterPython(options, io);
    io.log(`writing the ${has} weights of ${name} as ${weights}, once`);
    const args = ["-m", "learner.dequantise", file, part, weights];
    const outcome = await runWriting(python, args, io, `writing ${name}`);
    if (outcome.code !== 0) throw conversionError(`${file} cannot be written as ${weights}`, name, outcome.said);
  });
}
