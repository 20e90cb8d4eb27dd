/** models/catalog.json: models by short names. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { packageRoot } from "../util/index.js";

/** Weights that hone makes, and the learner reads. */
export const WEIGHTS = ["f16", "bf16", "q8_0"] as const;
export type Weights = (typeof WEIGHTS)[number];

const entrySchema = z
  .strictObject({
    /** In hone's own folder `models/`. */
    path: z.string().optional(),
    /** On the Hub, as safetensors. */
    repository: z.string().optional(),
    /** A finished file of the model's maker. */
    gguf: z.strictObject({ repository: z.string(), file: z.string(), weights: z.enum(WEIGHTS) }).optional(),
    description: z.string().optional(),
    licence: z.string(),
    /** Its conditions must be accepted on the Hub. */
    gated: z.boolean().default(false),
    /** The form of tool calls that its chat template has; none: the template ignores tools. */
    toolCalls: z.enum(["hermes", "llama3", "none"]),
    parameters: z.number().positive(),
  })
  .refine(({ path, repository }) => (path === undefined) !== (repository === undefined));

export type CatalogueEntry = z.infer<typeof entrySchema>;

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
