/** The forms in which a trained model leaves hone, and which weights each can have. */
import type { Config } from "../config/index.js";
import { UsageError } from "../util/index.js";

export type Form = NonNullable<Config["to"]>;
export type WeightType = NonNullable<Config["type"]>;

/** Forms that are the adapter alone, which has f32 weights whatever the model has. */
export const isAdapter = (form: Form) => form === "peft" || form === "gguf-lora";

/**
 * @param base type of the base model's weights, as llama.cpp names it
 * @throws UsageError when the form has no such weights
 */
export function weightTypeOf(form: Form, given: WeightType | undefined, base: string): WeightType {
  checkType(form, given);
  return given ?? (base === "BF16" ? "bf16" : "f16");
}

/** @throws UsageError as {@link weightTypeOf} */
export function checkType(form: Form, given: WeightType | undefined): void {
  if (given === undefined) return;
  if (isAdapter(form)) {
    throw new UsageError(`--type ${given}: --to ${form} writes the adapter alone, in f32; leave --type out`);
  }
  if (form === "safetensors" && !["f16", "bf16"].includes(given)) {
    throw new UsageError(`--type ${given}: safetensors are written in f16 or bf16; --to gguf has ${given}`);
  }
}

/** Name of the model's file in a folder of GGUF form; the Hub and llama.cpp read the type from its end. */
export const modelFileName = (type: WeightType) => `model-${type}.gguf`;

/** Bytes of a weight. q4_k_m has 4 and 6 bits beside each other, about 4.9 on average. */
const BYTES: Readonly<Record<WeightType, number>> = { f16: 2, bf16: 2, q8_0: 34 / 32, q4_k_m: 0.62 };

/** Bytes that writing needs at its highest: a file of fewer bits is made from one in f32. */
export function bytesNeeded(parameters: number, type: WeightType): number {
  const quantised = type === "q8_0" || type === "q4_k_m";
  return Math.ceil(parameters * (BYTES[type] + (quantised ? 4 : 0)));
}
