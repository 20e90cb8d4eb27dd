/** The file of a model's name, and the facts in its header. */
import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { HoneError, messageOf } from "../core/util/errors.js";
import { OpenFile } from "../core/util/files.js";
import { packageRoot } from "../core/util/paths.js";
import { type GgufHeader, type GgufValue, readGguf } from "./gguf.js";
import { whyUnsound, whyUnsoundAdapter } from "./soundness.js";

/** The GGUF file at a path, or of the model that comes with hone. src/machine/models resolves every other name. */
export const modelFile = (reference: string): string =>
  reference === "tiny" ? join(packageRoot, "models/tiny/tiny.gguf") : resolve(reference);

/** @throws HoneError when the file is no GGUF file, or not whole */
export function header(file: string): GgufHeader {
  try {
    return readGguf(file);
  } catch (error) {
    throw new HoneError(`${file} is not a GGUF model: ${messageOf(error).split("\n")[0]}`, { cause: error });
  }
}

/**
 * Checks what llama.cpp takes for granted, on pain of the process's end.
 *
 * @throws HoneError when the file is no GGUF model, or a damaged one
 */
export function checkSound(file: string): void {
  const why = whyUnsound(header(file));
  if (why !== undefined) throw new HoneError(`${file} is damaged: ${why}; download or copy it again`);
}

/** The same of an adapter. What is no GGUF file the addon refuses. */
export function checkSoundAdapter(file: string): void {
  let about: GgufHeader;
  try {
    about = readGguf(file);
  } catch {
    return;
  }
  const why = whyUnsoundAdapter(about);
  if (why !== undefined) throw new HoneError(`the adapter ${file} is damaged: ${why}; download or copy it again`);
}

const architectureOf = ({ values }: GgufHeader) => String(values.get("general.architecture") ?? "");

/**
 * Tokens the model was trained with, from the file's header.
 *
 * @throws HoneError when the file is no GGUF model
 */
export async function trainedContext(file: string): Promise<number> {
  const about = header(file);
  const context = about.values.get(`${architectureOf(about)}.context_length`);
  if (typeof context !== "number") throw new HoneError(`${file} does not say how long its context is; is it a model?`);
  return longest(about, context);
}

/** With RoPE scaled as the file says, from the context in its header. */
const longest = (about: GgufHeader, context: number) =>
  Math.min(Math.max(context, stretched(about)), withShortFactors(about));

/** The context that YaRN stretches the first one to; 0 without. Qwen's files say the first alone. */
function stretched({ values, ...about }: GgufHeader): number {
  const value = (key: string) => values.get(`${architectureOf({ values, ...about })}.rope.scaling.${key}`);
  return value("type") === "yarn" ? Number(value("factor") ?? 1) * Number(value("original_context_length") ?? 0) : 0;
}

/** LongRoPE's, which llama.cpp takes for all tokens of a context that is longer than the first one: a pool of several sequences is. */
export const hasLongFactors = ({ tensors }: Pick<GgufHeader, "tensors">) =>
  tensors.some(({ name }) => name === "rope_factors_long.weight");

/** llama.cpp rounds contexts up to multiples of it. */
const CONTEXT_STEP = 256;

/**
 * The longest context in which llama.cpp takes LongRoPE's short factors: those of longer ones would be others for all tokens,
 * in transformers for longer conversations alone.
 */
function withShortFactors(about: GgufHeader): number {
  if (!hasLongFactors(about)) return Number.POSITIVE_INFINITY;
  const first = about.values.get(`${architectureOf(about)}.rope.scaling.original_context_length`);
  if (typeof first !== "number") return Number.POSITIVE_INFINITY;
  return Math.floor(first / CONTEXT_STEP) * CONTEXT_STEP;
}

/**
 * The model's chat template, and that of conversations with tools where it has one of its own.
 *
 * @throws HoneError when the file is no GGUF model
 */
export async function chatTemplatesOf(file: string): Promise<{ chat: string | undefined; tools: string | undefined }> {
  const { values } = header(file);
  const named = (key: string) => {
    const template = values.get(key);
    return typeof template === "string" ? template : undefined;
  };
  return { chat: named("tokenizer.chat_template"), tools: named("tokenizer.chat_template.tool_use") };
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
  /** Tokens that layers with a window attend to; absent: no layer has one. */
  readonly window?: number;
  /** See {@link hasLongFactors}. */
  readonly longFactors?: true;
  /**
   * Numbers of the layers that have a short convolution in place of attention, and how many tokens it reads: a position's own
   * and those before it; absent: all layers attend.
   */
  readonly convolution?: { readonly layers: readonly number[]; readonly taps: number };
}

/** Numbers of the layers with attention, which alone have KV. */
export const attendingLayers = ({ layers, convolution }: Pick<ModelShape, "layers" | "convolution">): number[] =>
  Array.from({ length: layers }, (_, layer) => layer).filter((layer) => !convolution?.layers.includes(layer));

/** Other facts in a file's header. */
export interface ModelHeader extends ModelShape {
  /** Of all tensors, as llama.cpp names them. */
  readonly tensorTypes: readonly string[];
  readonly tensorNames: readonly string[];
  readonly hasVocabulary: boolean;
  /** "gpt2" of byte-level BPE, "llama" of SentencePiece's pieces ... */
  readonly tokenizer: string;
  readonly hasChatTemplate: boolean;
  /** "none", "linear", "yarn" ... */
  readonly ropeScaling: string;
  /** Dimensions of a head that RoPE rotates. */
  readonly rotated: number;
  /** Of a mixture; 0 for other models. */
  readonly experts: number;
}

/** The shape of a model, from the file's header. Throws HoneError when the file is no GGUF model of a transformer. */
export const modelShape = (file: string): Promise<ModelShape> => modelHeader(file);

/** @throws HoneError when the file is no GGUF model of a transformer */
export async function modelHeader(file: string): Promise<ModelHeader> {
  const about = header(file);
  const { values, tensors } = about;
  const architecture = architectureOf(about);
  const value = (name: string) => values.get(`${architecture}.${name}`);
  const number = (given: GgufValue | undefined, name: string): number => {
    // Some models give one number per layer; the largest decides.
    const found = typeof given === "object" ? given.numbers().reduce((most, one) => Math.max(most, one), 0) : given;
    if (typeof found === "number" && Number.isFinite(found) && found > 0) return found;
    throw new HoneError(`${file} does not say its ${name}; is it a model?`);
  };
  const sizes = new Map<string, number>();
  for (const { type = "none", dimensions } of tensors) {
    sizes.set(type, (sizes.get(type) ?? 0) + dimensions.reduce((product, size) => product * size, 1));
  }
  const [weightType = "none"] = [...sizes].sort(([, a], [, b]) => b - a)[0] ?? [];
  const embedding = number(value("embedding_length"), "width");
  const heads = number(value("attention.head_count"), "number of heads");
  const table = tensors.find(({ name }) => name === "token_embd.weight")?.dimensions;
  const headSize = number(value("attention.key_length") ?? embedding / heads, "head size");
  const tokens = values.get("tokenizer.ggml.tokens");
  const context = number(value("context_length"), "context");
  const window = Number(value("attention.sliding_window") ?? 0);
  const kvHeads = value("attention.head_count_kv") ?? heads;
  const taps = Number(value("shortconv.l_cache") ?? 0);
  const convolved = taps > 0 && typeof kvHeads === "object" ? [...kvHeads.numbers().entries()] : [];
  const layers = convolved.filter(([, heads]) => heads === 0).map(([layer]) => layer);
  return {
    architecture,
    bytes: statSync(file).size,
    parameters: [...sizes.values()].reduce((sum, count) => sum + count, 0),
    weightType,
    layers: number(value("block_count"), "number of layers"),
    embedding,
    feedForward: number(value("feed_forward_length"), "width between layers"),
    heads,
    kvHeads: number(kvHeads, "number of KV heads"),
    headSize,
    vocabulary: number(table?.[1], "vocabulary"),
    trainedContext: longest(about, context),
    tensorTypes: [...sizes.keys()],
    tensorNames: tensors.map(({ name }) => name),
    hasVocabulary: typeof tokens === "object" && tokens.length > 0,
    tokenizer: String(values.get("tokenizer.ggml.model") ?? "none"),
    hasChatTemplate: typeof values.get("tokenizer.chat_template") === "string",
    ropeScaling: String(value("rope.scaling.type") ?? "none"),
    rotated: Number(value("rope.dimension_count") ?? headSize),
    ...(window > 0 && window < context ? { window } : {}),
    ...(hasLongFactors(about) ? { longFactors: true } : {}),
    ...(layers.length > 0 ? { convolution: { layers, taps } } : {}),
    experts: Number(value("expert_count") ?? 0),
  };
}

/** Bytes at each end of a model file that its fingerprint covers: its header, and the last of its weights. */
const ENDS = 4 << 20;

/**
 * A fingerprint of a model file by size, beginning and end; reading all of a large file would take longer than loading it.
 */
export function modelFingerprint(file: string): string {
  using opened = new OpenFile(file);
  const { size } = opened;
  const hash = createHash("sha256").update(String(size));
  for (const start of [0, Math.max(0, size - ENDS)]) hash.update(opened.bytes(start, Math.min(ENDS, size)));
  return hash.digest("hex");
}
