/** The file of a model's name, and the facts in its header. */
import { createHash } from "node:crypto";
import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { HoneError, packageRoot, UsageError } from "../util/index.js";
import { header, reader } from "./header.js";

const catalogueSchema = z.record(z.string(), z.object({ path: z.string().optional() }).loose());

/** Models that come with hone: file by name. */
function catalogue(): Map<string, string> {
  const file = join(packageRoot, "models/catalog.json");
  if (!existsSync(file)) return new Map();
  const entries = catalogueSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  return new Map(
    Object.entries(entries).flatMap(([name, { path }]) => (path ? [[name, join(packageRoot, "models", path)]] : [])),
  );
}

/**
 * The GGUF file of a model that comes with hone, or at a path. src/models resolves every other name.
 *
 * @throws UsageError when there is no such file
 */
export function modelFile(reference: string): string {
  const known = catalogue();
  const file = known.get(reference) ?? resolve(reference);
  if (existsSync(file)) return file;
  const names = known.size > 0 ? `, or a model that comes with hone (${[...known.keys()].join(", ")})` : "";
  throw new UsageError(`--model: there is no file ${file}; give the path of a GGUF file${names}`);
}

/**
 * Tokens the model was trained with, from the file's header.
 *
 * @throws HoneError when the file is no GGUF model
 */
export async function trainedContext(file: string): Promise<number> {
  const context: unknown = (await header(file, false)).architectureMetadata.context_length;
  if (typeof context !== "number") throw new HoneError(`${file} does not say how long its context is; is it a model?`);
  return context;
}

/** The model's chat template; undefined where it has none. Throws HoneError when the file is no GGUF model. */
export async function chatTemplateOf(file: string): Promise<string | undefined> {
  const template: unknown = (await header(file, false)).metadata.tokenizer?.chat_template;
  return typeof template === "string" ? template : undefined;
}

/** The part of a header that determines a model's memory. Sizes are counts of numbers, `bytes` is the file's size. */
export interface ModelShape {
  /** "qwen2", "llama" ... */
  readonly architecture: string;
  readonly bytes: number;
  readonly parameters: number;
  /** Type of most weights, as llama.cpp names it: "F16", "Q8_0" ... */
  readonly weightType: string;
  readonly layers: number;
  readonly embedding: number;
  readonly feedForward: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly vocabulary: number;
  readonly trainedContext: number;
}

/** Other facts in a file's header. */
export interface ModelHeader extends ModelShape {
  /** Of all tensors, as llama.cpp names them. */
  readonly tensorTypes: readonly string[];
  readonly tensorNames: readonly string[];
  readonly hasVocabulary: boolean;
  readonly hasChatTemplate: boolean;
  /** "none", "linear", "yarn" ... */
  readonly ropeScaling: string;
  /** Dimensions of a head that RoPE rotates. */
  readonly rotated: number;
  readonly slidingWindow: boolean;
  /** Of a mixture; 0 for other models. */
  readonly experts: number;
}

/** The shape of a model, from the file's header. Throws HoneError when the file is no GGUF model of a transformer. */
export const modelShape = (file: string): Promise<ModelShape> => modelHeader(file);

/** @throws HoneError when the file is no GGUF model of a transformer */
export async function modelHeader(file: string): Promise<ModelHeader> {
  const { metadata, architectureMetadata: about, tensorInfo = [] } = await header(file, true);
  const number = (value: unknown, name: string): number => {
    // Some models give one number per layer; the largest decides.
    const found = Array.isArray(value) ? Math.max(...value.map(Number)) : Number(value);
    if (!Number.isFinite(found) || found <= 0) throw new HoneError(`${file} does not say its ${name}; is it a model?`);
    return found;
  };
  const { GgmlType } = await reader();
  const sizes = new Map<string, number>();
  for (const { ggmlType, dimensions } of tensorInfo) {
    const count = dimensions.reduce<number>((product, size) => product * Number(size), 1);
    const type = GgmlType[ggmlType] ?? String(ggmlType);
    sizes.set(type, (sizes.get(type) ?? 0) + count);
  }
  const [weightType = "none"] = [...sizes].sort(([, a], [, b]) => b - a)[0] ?? [];
  const embedding = number(about.embedding_length, "width");
  const heads = number(about.attention?.head_count, "number of heads");
  const table = tensorInfo.find(({ name }) => name === "token_embd.weight")?.dimensions;
  const headSize = number(about.attention?.key_length ?? embedding / heads, "head size");
  const window = about.attention?.sliding_window;
  return {
    architecture: metadata.general.architecture,
    bytes: statSync(file).size,
    parameters: [...sizes.values()].reduce((sum, count) => sum + count, 0),
    weightType,
    layers: number(about.block_count, "number of layers"),
    embedding,
    feedForward: number(about.feed_forward_length, "width between layers"),
    heads,
    kvHeads: number(about.attention?.head_count_kv ?? heads, "number of KV heads"),
    headSize,
    vocabulary: number(table?.[1], "vocabulary"),
    trainedContext: number(about.context_length, "context"),
    tensorTypes: [...sizes.keys()],
    tensorNames: tensorInfo.map(({ name }) => name),
    hasVocabulary: (metadata.tokenizer?.ggml?.tokens?.length ?? 0) > 0,
    hasChatTemplate: typeof metadata.tokenizer?.chat_template === "string",
    ropeScaling: String(about.rope?.scaling?.type ?? "none"),
    rotated: Number(about.rope?.dimension_count ?? headSize),
    slidingWindow: Number(window ?? 0) > 0,
    experts: Number(about.expert_count ?? 0),
  };
}

/** Bytes at each end of a model file that its fingerprint covers: its header, and the last of its weights. */
const ENDS = 4 << 20;

/**
 * A fingerprint of a model file by size, beginning and end; reading all of a large file would take longer than loading it.
 */
export function modelFingerprint(file: string): string {
  const { size } = statSync(file);
  const hash = createHash("sha256").update(String(size));
  const handle = openSync(file, "r");
  try {
    for (const start of [0, Math.max(0, size - ENDS)]) {
      const part = Buffer.alloc(Math.min(ENDS, size));
      readSync(handle, part, 0, part.length, start);
      hash.update(part);
    }
  } finally {
    closeSync(handle);
  }
  return hash.digest("hex");
}
