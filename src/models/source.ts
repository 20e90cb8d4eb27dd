/** A model in Hugging Face form: which of its files are needed, and whether they are all there and whole. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelShape } from "../engine/index.js";
import { missingPart } from "../hub/index.js";
import { HoneError } from "../util/index.js";
import { checkArchitecture } from "./architecture.js";
import { shapeOfSizes, type Weights } from "./catalogue.js";
import { readHead } from "./safetensors-head.js";
import { needPieces } from "./sentencepiece.js";

const INDEX = "model.safetensors.index.json";
const WEIGHTS = /^model(-\d{5}-of-\d{5})?\.safetensors$/;
/** Small files: configuration, tokenizer, chat template. */
const ABOUT = new Set([
  "config.json",
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "tokenizer.model",
  "special_tokens_map.json",
  "added_tokens.json",
  "vocab.json",
  "merges.txt",
  "chat_template.jinja",
  "chat_template.json",
  INDEX,
]);

/** Files that describe the model, of all that a repository has. */
export const aboutFiles = (paths: readonly string[]) => paths.filter((path) => ABOUT.has(path));

/** Those that hold whatever the weights are: not the configuration, which names their type, nor the weights' index. */
export const unchangedFiles = (paths: readonly string[]) =>
  aboutFiles(paths).filter((path) => path !== "config.json" && path !== INDEX);

/** Files with the model's weights, of all that a repository has; those in sub-folders belong to other programs. */
export const weightFiles = (paths: readonly string[]) => paths.filter((path) => WEIGHTS.test(path));

/** GGUF files that are whole models: no parts, no adapters for images. */
export const ggufFiles = (paths: readonly string[]) =>
  paths.filter((path) => /\.gguf$/i.test(path) && !/mmproj/i.test(path));

/** @throws HoneError when a repository or folder has no weights that hone reads: what it has instead */
export function needWeights(paths: readonly string[], name: string): void {
  const missing = missingPart(weightFiles(paths));
  if (missing) throw new HoneError(`${name} has no file ${missing}: a part of its weights is missing`);
  if (weightFiles(paths).length > 0) return;
  const pickled = paths.find((path) => /\.(bin|pt|pth|ckpt)$/.test(path));
  const reason = paths.includes("adapter_config.json")
    ? "it is an adapter: give the model under it with --model, and train from it with --init-adapter"
    : pickled
      ? `its weights are in ${pickled}, which is a program as much as it is data; hone reads safetensors and GGUF`
      : "it has no model.safetensors and no GGUF file";
  throw new HoneError(`${name} has no weights that hone reads: ${reason}`);
}

/** Has a snapshot all parts of the weights, the configuration and a vocabulary? Python may have fetched some files only. */
export function isComplete(paths: readonly string[]): boolean {
  const weights = weightFiles(paths);
  return weights.length > 0 && !missingPart(weights) && paths.includes("config.json") && hasVocabulary(paths);
}

export const hasVocabulary = (paths: readonly string[]) =>
  ["tokenizer.json", "tokenizer.model", "vocab.json"].some((file) => paths.includes(file));

function readJson(folder: string, file: string, name: string): unknown {
  try {
    return JSON.parse(readFileSync(join(folder, file), "utf8"));
  } catch (error) {
    throw new HoneError(`${file} of ${name} is no JSON: was it written or downloaded whole?`, { cause: error });
  }
}

/** @throws HoneError for an architecture that hone does not take */
export function checkConfig(folder: string, name: string): void {
  checkArchitecture(readJson(folder, "config.json", name), name);
}

/**
 * What must hold before a weight is fetched or read.
 *
 * @param folder has the files of {@link aboutFiles}
 * @throws HoneError for an architecture that hone does not take, and when vocabulary or chat template are missing
 */
export function checkAbout(folder: string, name: string): void {
  const has = (file: string) => existsSync(join(folder, file));
  if (!has("config.json")) throw new HoneError(`${name} has no config.json: it is no model in Hugging Face form`);
  checkConfig(folder, name);
  if (!has("tokenizer.json") && !has("tokenizer.model") && !(has("vocab.json") && has("merges.txt"))) {
    throw new HoneError(`${name} has no vocabulary: tokenizer.json (or vocab.json and merges.txt) must be there`);
  }
  needPieces(folder, name);
  const inConfig = has("tokenizer_config.json")
    ? (readJson(folder, "tokenizer_config.json", name) as { chat_template?: unknown } | null)?.chat_template
    : undefined;
  if (!inConfig && !has("chat_template.jinja") && !has("chat_template.json")) {
    throw new HoneError(
      `${name} has no chat template: it is a base model; give the one that was made for chat (Instruct)`,
    );
  }
}

/**
 * What {@link checkAbout} refuses a folder for. Python may have left out the chat template or half of the vocabulary:
 * only the Hub knows whether they exist.
 */
export function whyUnusable(folder: string, name: string): string | undefined {
  try {
    checkAbout(folder, name);
    return undefined;
  } catch (error) {
    if (error instanceof HoneError) return error.message;
    throw error;
  }
}

export const isUsable = (folder: string, name: string) => whyUnusable(folder, name) === undefined;

/**
 * What its config.json says that a model will be as a GGUF file.
 *
 * @param folder of a model that {@link checkConfig} takes
 * @returns undefined where a size is not said
 */
export function shapeInFolder(folder: string, weights: Weights): ModelShape | undefined {
  const config = readJson(folder, "config.json", folder) as Record<string, unknown>;
  const number = (name: string) => Number(config[name]);
  const [embedding, heads] = [number("hidden_size"), number("num_attention_heads")];
  const sizes = {
    layers: number("num_hidden_layers"),
    embedding,
    feedForward: number("intermediate_size"),
    heads,
    kvHeads: Number(config.num_key_value_heads ?? heads),
    headSize: Number(config.head_dim ?? embedding / heads),
    vocabulary: number("vocab_size"),
    trainedContext: number("max_position_embeddings"),
  };
  if (!Object.values(sizes).every((size) => Number.isInteger(size) && size > 0)) return undefined;
  const architecture = String(config.model_type);
  return shapeOfSizes({ architecture, ...sizes }, config.tie_word_embeddings === true, weights);
}

/**
 * Looks at the head of each weight file.
 *
 * @returns how many numbers the weights are
 * @throws HoneError when a file is missing, cut off, or is none
 */
export function weigh(folder: string, paths: readonly string[], name: string): number {
  let parameters = 0;
  const there = new Set<string>();
  for (const path of weightFiles(paths)) {
    for (const [tensor, shape] of readHead(join(folder, path), `${path} of ${name}`)) {
      parameters += shape.reduce((product, size) => product * size, 1);
      there.add(tensor);
    }
  }
  if (existsSync(join(folder, INDEX))) {
    const { weight_map: map = {} } = readJson(folder, INDEX, name) as { weight_map?: Record<string, string> };
    const lost = Object.entries(map).find(([tensor]) => !there.has(tensor));
    if (lost) throw new HoneError(`${name} lacks the weights ${lost[0]}, which its index puts in ${lost[1]}`);
  }
  return parameters;
}
