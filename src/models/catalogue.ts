/** models/catalog.json: models by short names. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { ModelShape } from "../engine/index.js";
import { packageRoot } from "../util/index.js";

/** Weights that hone makes, and the learner reads. */
export const WEIGHTS = ["f16", "bf16", "q8_0"] as const;
export type Weights = (typeof WEIGHTS)[number];

/** Bytes of a weight. q8_0: 32 of them share a scale of two bytes. */
export const BYTES: Readonly<Record<Weights, number>> = { f16: 2, bf16: 2, q8_0: 34 / 32 };

/**
 * Models that have one computation, vocabulary and chat template in common. An entry is of one that families.models.test.ts
 * trains, with its real vocabulary and template.
 */
const FAMILIES = {
  "qwen2.5": { architecture: "qwen2", toolCalls: "hermes" },
  qwen3: { architecture: "qwen3", toolCalls: "hermes" },
  "llama3.2": { architecture: "llama", toolCalls: "llama3" },
} as const;

const count = z.number().int().positive();

const entrySchema = z.union([
  z.strictObject({
    /** In hone's own folder `models/`. */
    path: z.string(),
    description: z.string(),
    licence: z.string(),
    toolCalls: z.literal("hermes"),
  }),
  z.strictObject({
    /** On the Hub, as safetensors. */
    repository: z.string(),
    /** A finished file of the model's maker. */
    gguf: z.strictObject({ repository: z.string(), file: z.string(), weights: z.enum(WEIGHTS) }).optional(),
    licence: z.string(),
    /** Its conditions must be accepted on the Hub. */
    gated: z.boolean().default(false),
    family: z.enum(Object.keys(FAMILIES) as [keyof typeof FAMILIES]),
    /** As in its config.json. */
    shape: z.strictObject({
      layers: count,
      embedding: count,
      feedForward: count,
      heads: count,
      kvHeads: count,
      headSize: count,
      vocabulary: count,
      /** Whether its output layer is the table of embeddings. */
      tied: z.boolean(),
      trainedContext: count,
    }),
  }),
]);

type AnyEntry = z.infer<typeof entrySchema>;
export type HubEntry = Extract<AnyEntry, { repository: string }>;
export type OwnEntry = Extract<AnyEntry, { path: string }>;
export type CatalogueEntry = HubEntry | OwnEntry;

let read: ReadonlyMap<string, CatalogueEntry> | undefined;

/** Entries by name, in the order of the file. */
export function catalogue(): ReadonlyMap<string, CatalogueEntry> {
  read ??= new Map(
    Object.entries(
      z
        .record(z.string(), entrySchema)
        .parse(JSON.parse(readFileSync(join(packageRoot, "models/catalog.json"), "utf8"))),
    ),
  );
  return read;
}

/** The form of tool calls that a model's chat template has. */
export const toolCallsOf = (entry: CatalogueEntry) =>
  "path" in entry ? entry.toolCalls : FAMILIES[entry.family].toolCalls;

/** What a model will be as a GGUF file with these weights. */
export function shapeOf({ family, shape: { tied, ...sizes } }: HubEntry, weights: Weights): ModelShape {
  return shapeOfSizes({ architecture: FAMILIES[family].architecture, ...sizes }, tied, weights);
}

/** @param tied whether the output layer is the table of embeddings */
export function shapeOfSizes(
  sizes: Omit<ModelShape, "bytes" | "parameters" | "weightType">,
  tied: boolean,
  weights: Weights,
): ModelShape {
  const { architecture, layers, embedding: d, feedForward, heads, kvHeads, headSize, vocabulary } = sizes;
  // Qwen2 adds biases to queries, keys and values, Qwen3 normalises queries and keys.
  const own = { qwen2: headSize * (heads + 2 * kvHeads), qwen3: 2 * headSize }[architecture] ?? 0;
  const layer = 2 * d * headSize * (heads + kvHeads) + own + 3 * d * feedForward + 2 * d;
  const parameters = layers * layer + d + (tied ? 1 : 2) * vocabulary * d;
  return { ...sizes, parameters, bytes: Math.round(parameters * BYTES[weights]), weightType: weights.toUpperCase() };
}
