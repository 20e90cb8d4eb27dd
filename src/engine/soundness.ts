/**
 * What llama.cpp asserts of a model's header, and ends the process for where it does not hold (src/llama-model.cpp,
 * src/llama-vocab.cpp, ggml/src/ggml-cpu/ops.cpp). What it refuses itself with a message is left to it.
 */
import type { GgufHeader, GgufTensor, GgufValue } from "./gguf.js";

/** `LLAMA_MAX_LAYERS` and `LLAMA_MAX_EXPERTS` in llama.cpp. */
const MOST_LAYERS = 512;
const MOST_EXPERTS = 1024;
/** A size that is larger is none; products of two are exact. */
const MOST = 2 ** 26;
const SCALINGS = ["none", "linear", "yarn", "longrope"];

class Unsound extends Error {}

type Value = (name: string) => GgufValue | undefined;

/** Why llama.cpp would end the process with this model, as a clause; undefined where it would not. */
export function whyUnsound({ values, tensors }: GgufHeader): string | undefined {
  const architecture = values.get("general.architecture");
  if (typeof architecture !== "string" || architecture === "") return "it does not say its architecture";
  try {
    checkSizes((name) => values.get(`${architecture}.${name}`));
    checkTokens((name) => values.get(`tokenizer.${name}`));
    for (const tensor of tensors) checkTensor(tensor);
    return undefined;
  } catch (error) {
    if (error instanceof Unsound) return error.message;
    throw error;
  }
}

function checkSizes(value: Value): void {
  /** A whole number in a range; where the key may be given by layer, each of its numbers. */
  const whole = (name: string, least: number, most = MOST) => {
    const given = value(name);
    if (given === undefined) return undefined;
    const numbers = typeof given === "object" ? given.numbers() : [given];
    const wrong = numbers.find((one) => !Number.isInteger(one) || Number(one) < least || Number(one) > most);
    if (wrong !== undefined || numbers.length === 0) throw new Unsound(`its ${name} is ${wrong ?? "empty"}`);
    return typeof given === "number" ? given : undefined;
  };
  const real = (name: string, fits: (number: number) => boolean) => {
    const given = value(name);
    if (given === undefined || (typeof given === "number" && Number.isFinite(given) && fits(given))) return;
    throw new Unsound(`its ${name} is ${typeof given === "object" ? "a list" : given}`);
  };
  const layers = whole("block_count", 1, MOST_LAYERS) ?? 0;
  whole("nextn_predict_layers", 0, layers);
  whole("context_length", 1, 2 ** 31 - 1);
  whole("vocab_size", 1);
  whole("feed_forward_length", 0);
  whole("attention.sliding_window", 0);
  whole("shortconv.l_cache", 2);
  const embedding = whole("embedding_length", 1);
  const heads = whole("attention.head_count", 0);
  const kvHeads = whole("attention.head_count_kv", 0) ?? heads;
  if (heads && kvHeads !== undefined && (kvHeads === 0 || heads % kvHeads !== 0)) {
    throw new Unsound(`it has ${heads} heads of attention and ${kvHeads} of keys and values`);
  }
  const evenly = embedding !== undefined && heads ? Math.floor(embedding / heads) : undefined;
  const headSize = whole("attention.key_length", 1) ?? evenly;
  whole("attention.value_length", 1);
  const rotated = whole("rope.dimension_count", 0) ?? headSize;
  if (rotated !== undefined && headSize !== undefined && (rotated > headSize || rotated % 2 !== 0)) {
    throw new Unsound(`it rotates ${rotated} of ${headSize} dimensions of a head`);
  }
  const experts = whole("expert_count", 0, MOST_EXPERTS) ?? 0;
  const least = experts > 0 ? 1 : 0;
  if ((whole("expert_used_count", least, experts) ?? 0) < least)
    throw new Unsound("it does not say its expert_used_count");
  whole("expert_group_count", 0, Math.max(0, experts - 1));
  whole("expert_group_used_count", 0, Math.max(0, experts - 1));
  for (const name of ["attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"]) {
    real(name, (epsilon) => epsilon >= 0);
  }
  for (const name of ["rope.freq_base", "rope.scaling.factor", "rope.scale_linear"]) real(name, (base) => base > 0);
  const scaling = value("rope.scaling.type");
  if (scaling !== undefined && !SCALINGS.includes(String(scaling))) {
    throw new Unsound(`its rope.scaling.type is none of ${SCALINGS.join(", ")}`);
  }
}

/** Why llama.cpp would end the process with this adapter, as a clause; undefined where it would not. It refuses other names itself. */
export function whyUnsoundAdapter({ tensors }: GgufHeader): string | undefined {
  for (const { name, type, dimensions } of tensors) {
    if (!/\.lora_[ab]$/.test(name)) continue;
    const where = `its tensor ${JSON.stringify(name)}`;
    if (type === undefined) return `${where} is of a type that holds no weights`;
    if (dimensions.some((size) => size === 0)) return `${where} is empty`;
    if (dimensions.slice(2).some((size) => size !== 1)) return `${where} is no matrix`;
  }
  return undefined;
}

const byteName = (byte: number) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;

function checkTokens(value: Value): void {
  const tokens = value("ggml.tokens");
  if (typeof tokens !== "object") return;
  const texts = new Set(tokens.bytes().map((text, index) => text || `[EMPTY_${index}]`));
  if (texts.size !== tokens.length) throw new Unsound("two of its tokens have the same text");
  const kind = value("ggml.model");
  if (kind === "none" || kind === "no_vocab") throw new Unsound("it has tokens, and its tokenizer.ggml.model is none");
  if (kind !== "llama") return;
  for (let byte = 0; byte < 256; byte++) {
    if (texts.has(byteName(byte)) || texts.has(String.fromCharCode(byte))) continue;
    throw new Unsound(`its vocabulary has no token ${byteName(byte)}, so not every text can be written in it`);
  }
}

function checkTensor({ name, type, dimensions }: GgufTensor): void {
  const where = `its tensor ${JSON.stringify(name)}`;
  if (type === undefined) throw new Unsound(`${where} is of a type that holds no weights`);
  if (dimensions.some((size) => size === 0)) throw new Unsound(`${where} is empty`);
  // Norms and biases: ggml multiplies and adds them in f32 alone.
  if (dimensions.length <= 1 && type !== "F32") throw new Unsound(`${where} is in ${type}, and one row must be in F32`);
}
