/** The export formats, and the weight types of each. */
import type { Config } from "../../core/config/config.js";
import { UsageError } from "../../core/util/errors.js";

export type Form = NonNullable<Config["to"]>;
export type WeightType = NonNullable<Config["type"]>;

/** Formats with the adapter alone, which has f32 weights. */
export const isAdapter = (form: Form) => form === "peft" || form === "gguf-lora";

/** @throws UsageError when the format does not support the type */
export function checkType(form: Form, given: WeightType | undefined): void {
  if (given === undefined) return;
  if (isAdapter(form)) {
    throw new UsageError(`--type ${given}: --to ${form} writes the adapter alone, in f32; leave --type out`);
  }
  if (form === "safetensors" && !["f16", "bf16"].includes(given)) {
    throw new UsageError(`--type ${given}: safetensors are written in f16 or bf16; --to gguf has ${given}`);
  }
}

/** Name of the model's file in GGUF format; the Hub and llama.cpp read the type from the name's end. */
export const modelFileName = (type: WeightType) => `model-${type}.gguf`;

/** Bytes per weight. q4_k_m mixes 4 and 6 bits, about 4.9 on average. */
const BYTES: Readonly<Record<WeightType, number>> = { f16: 2, bf16: 2, q8_0: 34 / 32, q4_k_m: 0.62 };

/** Peak disk usage in bytes: quantised files are made from one in f32. */
export function bytesNeeded(parameters: number, type: WeightType): number {
  const quantised = type === "q8_0" || type === "q4_k_m";
  return Math.ceil(parameters * (BYTES[type] + (quantised ? 4 : 0)));
}
