/** models/catalog.json: models by short names. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../core/util/paths.js";
import type { ModelShape } from "../../engine/models.js";
import { architectureNamed } from "../architectures.js";
import type { WheelPart } from "../python/wheel.js";

/** Weight types that hone writes and the learner reads. */
export const WEIGHTS = ["f16", "bf16", "f32", "q8_0"] as const;
export type Weights = (typeof WEIGHTS)[number];
export const DEFAULT_WEIGHTS: Weights = "f16";

/** Bytes per weight. q8_0: 32 weights share a scale of two bytes. */
export const BYTES: Readonly<Record<Weights, number>> = { f16: 2, bf16: 2, f32: 4, q8_0: 34 / 32 };

/**
 * Groups of models with the same architecture, vocabulary and chat template. Each family has a model that
 * families.full.test.ts trains, with its real vocabulary and template.
 */
const FAMILIES = {
  "qwen2.5": { architecture: "qwen2", toolCalls: "hermes" },
  qwen3: { architecture: "qwen3", toolCalls: "hermes" },
  "llama3.2": { architecture: "llama", toolCalls: "llama3" },
} as const;

/** As in its config.json. */
type Shape = Omit<ModelShape, "architecture" | "bytes" | "parameters" | "weightType"> & {
  /** Whether output layer and embeddings are one tensor. */
  readonly tied: boolean;
};

interface OwnEntry {
  /** In hone's own folder `models/`. */
  readonly path: string;
  readonly description: string;
  readonly licence: string;
  readonly toolCalls: string;
}

interface HubEntry {
  /** A repository of the Hub, as safetensors. */
  readonly repository: string;
  /** A GGUF file published by the model's maker. */
  readonly gguf?: { readonly repository: string; readonly file: string; readonly weights: Weights };
  readonly licence: string;
  /** Whether its conditions must be accepted on the Hub. */
  readonly gated?: boolean;
  readonly family: keyof typeof FAMILIES;
  readonly shape: Shape;
}

interface WheelEntry {
  /** A GGUF file in a wheel of a Python package index. */
  readonly wheel: WheelPart;
  readonly licence: string;
  readonly architecture: "llama";
  readonly shape: Shape;
}

export type CatalogueEntry = OwnEntry | HubEntry | WheelEntry;

let read: ReadonlyMap<string, CatalogueEntry> | undefined;

/** Entries by name, in the order of the file. */
export function catalogue(): ReadonlyMap<string, CatalogueEntry> {
  read ??= new Map(Object.entries(JSON.parse(readFileSync(join(packageRoot, "models/catalog.json"), "utf8"))));
  return read;
}

/** The tool format of the model's chat template; null where that shows no tools. */
export function toolCallsOf(entry: CatalogueEntry): string | null {
  if ("wheel" in entry) return null;
  return "path" in entry ? entry.toolCalls : FAMILIES[entry.family].toolCalls;
}

/** The shape of the model as a GGUF file with these weights. */
export function shapeOf(entry: HubEntry | WheelEntry, weights: Weights): ModelShape {
  const { tied, ...sizes } = entry.shape;
  const architecture = "wheel" in entry ? entry.architecture : FAMILIES[entry.family].architecture;
  return shapeOfSizes({ architecture, ...sizes }, tied, weights);
}

/** @param tied whether output layer and embeddings are one tensor */
export function shapeOfSizes(
  sizes: Omit<ModelShape, "bytes" | "parameters" | "weightType">,
  tied: boolean,
  weights: Weights,
): ModelShape {
  const { architecture, layers, embedding: d, feedForward, heads, kvHeads, headSize, vocabulary } = sizes;
  const { layers: convolved, taps } = sizes.convolution ?? { layers: [], taps: 0 };
  const { attentionBias, headNorms, norms } = architectureNamed(architecture) ?? {};
  const normed = { each: 2 * headSize, together: headSize * (heads + kvHeads), none: 0 }[headNorms ?? "none"];
  const own = (attentionBias ? headSize * (heads + 2 * kvHeads) : 0) + normed;
  const attention = (layers - convolved.length) * (2 * d * headSize * (heads + kvHeads) + own);
  const convolutions = convolved.length * (4 * d * d + taps * d);
  const rest = layers * (3 * d * feedForward + (norms === "both" ? 4 : 2) * d);
  const parameters = attention + convolutions + rest + d + (tied ? 1 : 2) * vocabulary * d;
  return { ...sizes, parameters, bytes: Math.round(parameters * BYTES[weights]), weightType: weights.toUpperCase() };
}
