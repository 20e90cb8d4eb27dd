/** A model in Hugging Face format: which files are needed, and whether they are complete. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import type { ModelShape } from "../../engine/models.js";
import { architectureNamed, MODEL_TYPES } from "../architectures.js";
import { missingPart } from "../hub/cache.js";
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

/** Where transformers has chat templates by name. */
const TEMPLATES = "additional_chat_templates";
const TEMPLATE = new RegExp(`^${TEMPLATES}/([^/]+)\\.jinja$`);

/** Files that describe the model, of all that a repository has. */
export const aboutFiles = (paths: readonly string[]) => paths.filter((path) => ABOUT.has(path) || TEMPLATE.test(path));

/** Files of a model's folder: its own, and chat templates by name. */
export function filesOf(folder: string): string[] {
  const templates = join(folder, TEMPLATES);
  const named = statSync(templates, { throwIfNoEntry: false })?.isDirectory() ? readdirSync(templates) : [];
  return [...readdirSync(folder), ...named.map((name) => `${TEMPLATES}/${name}`)];
}

/**
 * A model's chat template, or all of them by their names, in the form of tokenizer_config.json; undefined where it has none. As
 * in transformers a template in a file comes before those in tokenizer_config.json.
 */
export function chatTemplateIn(folder: string, name: string): string | readonly NamedTemplate[] | undefined {
  const paths = filesOf(folder);
  const has = (path: string) => paths.includes(path);
  const text = (path: string) => readFileSync(join(folder, path), "utf8");
  const inFile = (path: string) => (has(path) ? readJson(folder, path, name).chat_template : undefined);
  const templates = new Map<string, string>();
  const own = has("chat_template.jinja") ? text("chat_template.jinja") : undefined;
  if (own !== undefined) templates.set("default", own);
  else {
    for (const [key, template] of named(inFile("tokenizer_config.json") ?? inFile("chat_template.json"))) {
      if (typeof template === "string" && template !== "") templates.set(key, template);
    }
  }
  for (const path of paths) {
    const key = TEMPLATE.exec(path)?.[1];
    if (key !== undefined) templates.set(key, text(path));
  }
  if (templates.size === 1 && templates.has("default")) return templates.get("default");
  return templates.size === 0 ? undefined : [...templates].map(([name, template]) => ({ name, template }));
}

interface NamedTemplate {
  readonly name: string;
  readonly template: string;
}

/** The pairs of a field of tokenizer_config.json: one text, a list of objects, or an object. */
function named(field: unknown): [name: string, template: unknown][] {
  if (typeof field === "string") return [["default", field]];
  if (!Array.isArray(field)) return typeof field === "object" && field !== null ? Object.entries(field) : [];
  return field.flatMap((one) => (typeof one === "object" && one !== null ? [[String(one.name), one.template]] : []));
}

/**
 * Files that do not depend on the weights: neither the configuration, which names their type, nor the weights' index.
 */
export const unchangedFiles = (paths: readonly string[]) =>
  aboutFiles(paths).filter((path) => path !== "config.json" && path !== INDEX);

/** Files with the model's weights in a repository; those in sub-folders belong to other programs. */
export const weightFiles = (paths: readonly string[]) => paths.filter((path) => WEIGHTS.test(path));

/** GGUF files with a whole model: no parts, no image projectors. */
export const ggufFiles = (paths: readonly string[]) =>
  paths.filter((path) => /\.gguf$/i.test(path) && !/mmproj/i.test(path));

/** @throws HoneError when a repository or folder has no weights that hone reads, with the formats that it has */
export function needWeights(paths: readonly string[], name: string): void {
  const missing = missingPart(weightFiles(paths));
  if (missing) throw new HoneError(`${name} has no file ${missing}: a part of its weights is missing`);
  if (weightFiles(paths).length > 0) return;
  const pickled = paths.find((path) => /\.(bin|pt|pth|ckpt)$/.test(path));
  const reason = paths.includes("adapter_config.json")
    ? "it is an adapter: give the model under it with --model, and train from it with --fork"
    : pickled
      ? `its weights are in ${pickled}, which is a program as much as it is data; hone reads safetensors and GGUF`
      : "it has no model.safetensors and no GGUF file";
  throw new HoneError(`${name} has no weights that hone reads: ${reason}`);
}

/**
 * Whether a snapshot has all parts of the weights, the configuration and a vocabulary. Python may have fetched some
 * files only.
 */
export function isComplete(paths: readonly string[]): boolean {
  const weights = weightFiles(paths);
  return weights.length > 0 && !missingPart(weights) && paths.includes("config.json") && hasVocabulary(paths);
}

export const hasVocabulary = (paths: readonly string[]) =>
  ["tokenizer.json", "tokenizer.model", "vocab.json"].some((file) => paths.includes(file));

/** @throws HoneError in one line when it is no JSON object */
export function readJson(folder: string, file: string, name: string): Record<string, unknown> {
  const wrong = `${file} of ${name} is no JSON object: was it written or downloaded whole?`;
  try {
    const json: unknown = JSON.parse(readFileSync(join(folder, file), "utf8"));
    if (typeof json === "object" && json !== null && !Array.isArray(json)) return json as Record<string, unknown>;
  } catch (error) {
    throw new HoneError(wrong, { cause: error });
  }
  throw new HoneError(wrong);
}

/** @throws HoneError for an unsupported architecture */
export function checkConfig(folder: string, name: string): void {
  checkArchitecture(readJson(folder, "config.json", name), name);
}

/**
 * Checks done before any weights are fetched or read.
 *
 * @param folder contains the files of {@link aboutFiles}
 * @throws HoneError for an unsupported architecture, and when vocabulary or chat template are missing
 */
export function checkAbout(folder: string, name: string): void {
  const has = (file: string) => existsSync(join(folder, file));
  if (!has("config.json")) throw new HoneError(`${name} has no config.json: it is no model in Hugging Face form`);
  checkConfig(folder, name);
  if (!has("tokenizer.json") && !has("tokenizer.model") && !(has("vocab.json") && has("merges.txt"))) {
    throw new HoneError(`${name} has no vocabulary: tokenizer.json (or vocab.json and merges.txt) must be there`);
  }
  needPieces(folder, name);
  if (chatTemplateIn(folder, name) === undefined) {
    throw new HoneError(
      `${name} has no chat template: it is a base model; give the one that was made for chat (Instruct)`,
    );
  }
}

/**
 * The reason why {@link checkAbout} refuses a folder. Python may have left out the chat template or half of the
 * vocabulary: only the Hub knows whether they exist.
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

const isLong = ({ rope_scaling: old, rope_parameters: rope = old }: Record<string, unknown>) =>
  typeof rope === "object" && rope !== null && "long_factor" in rope;

/**
 * The shape of the model as a GGUF file, from its config.json.
 *
 * @param folder of a model that {@link checkConfig} accepts
 * @returns undefined if a size is missing
 */
export function shapeInFolder(folder: string, weights: Weights): ModelShape | undefined {
  const config = readJson(folder, "config.json", folder);
  const number = (name: string) => Number(config[name]);
  const [embedding, heads] = [number("hidden_size"), number("num_attention_heads")];
  const layers = number("num_hidden_layers");
  const sizes = {
    layers,
    embedding,
    feedForward: feedForwardOf(config),
    heads,
    kvHeads: Number(config.num_key_value_heads ?? heads),
    headSize: Number(config.head_dim ?? embedding / heads),
    vocabulary: number("vocab_size"),
    // In a longer one than the first LongRoPE takes other factors.
    trainedContext: isLong(config) ? number("original_max_position_embeddings") : number("max_position_embeddings"),
  };
  if (!Object.values(sizes).every((size) => Number.isInteger(size) && size > 0)) return undefined;
  const architecture = MODEL_TYPES.get(String(config.model_type))?.gguf;
  if (architecture === undefined) return undefined;
  const { windows, tied = false, convolves = false } = architectureNamed(architecture) ?? {};
  const window = windows === undefined ? {} : { window: number("sliding_window") };
  const convolved = convolves ? convolutionsOf(config, layers) : [];
  const convolution =
    convolved.length === 0 ? {} : { convolution: { layers: convolved, taps: Number(config.conv_L_cache ?? 3) } };
  const one = config.tie_embedding ?? config.tie_word_embeddings ?? tied;
  return shapeOfSizes({ architecture, ...sizes, ...window, ...convolution }, one === true, weights);
}

/** Numbers of the layers with a convolution. */
function convolutionsOf({ layer_types: types, full_attn_idxs: attending }: Record<string, unknown>, layers: number) {
  const all = Array.from({ length: layers }, (_, layer) => layer);
  if (Array.isArray(types)) return all.filter((layer) => types[layer] === "conv");
  return Array.isArray(attending) ? all.filter((layer) => !attending.includes(layer)) : [];
}

/** The width between layers, which LFM2 derives from the one that it names (Lfm2MLP of transformers). */
function feedForwardOf(config: Record<string, unknown>): number {
  const named = Number(config.block_ff_dim ?? config.intermediate_size);
  if (config.model_type !== "lfm2" || config.block_auto_adjust_ff_dim === false) return named;
  const narrower = Math.floor((2 * named) / 3);
  const factor = config.block_ffn_dim_multiplier;
  if (factor === null) return narrower;
  const step = Number(config.block_multiple_of ?? 256);
  return step * Math.ceil(Math.floor(Number(factor ?? 1) * narrower) / step);
}

/**
 * Reads the header of each weight file.
 *
 * @returns the number of parameters
 * @throws HoneError when a file is missing, truncated, or not a safetensors file
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
    const { weight_map: map } = readJson(folder, INDEX, name);
    const lost = Object.entries(map ?? {}).find(([tensor]) => !there.has(tensor));
    if (lost) throw new HoneError(`${name} lacks the weights ${lost[0]}, which its index puts in ${lost[1]}`);
  }
  return parameters;
}
