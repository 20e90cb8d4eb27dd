/** Chat templates of several models over their real vocabularies, and what Hugging Face makes of the same conversations. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getLlama, type LlamaModel, readGgufFileInfo } from "node-llama-cpp";
import { ChatTemplate } from "../../../src/rollout/template.js";
import type { ChatMessage, ToolSchema } from "../../../src/tasks/task.js";
import { packageRoot } from "../../../src/util/paths.js";
import { llamaCppFiles } from "../../support/bundle.js";

const files = llamaCppFiles();
const vocabulary = (name: string) => join(files, `models/ggml-vocab-${name}.gguf`);
const templateFile = (name: string) => join(files, `models/templates/${name}.jinja`);

export const models = [
  { name: "Qwen2.5", vocabulary: vocabulary("qwen2"), template: templateFile("Qwen-Qwen2.5-7B-Instruct") },
  { name: "Qwen3", vocabulary: vocabulary("qwen2"), template: templateFile("Qwen-Qwen3-0.6B") },
  { name: "Llama-3", vocabulary: vocabulary("llama-bpe"), template: templateFile("meta-llama-Llama-3.2-3B-Instruct") },
  {
    name: "hone tiny",
    vocabulary: join(packageRoot, "models/tiny/tiny.gguf"),
    template: join(packageRoot, "models/tiny/chat_template.jinja"),
  },
];

/** Mistral's control tokens, in the place of Llama's: llama.cpp's files have no vocabulary of Mistral's. */
const mistralTokens = [
  ...["[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"],
  ...["[TOOL_CALLS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[CALL_ID]", "[ARGS]", "[TOOL_CONTENT]"],
  ...["[THINK]", "[/THINK]"],
];

/** Llama 3's vocabulary with other names for its control tokens. A GGUF text is its length and its bytes. */
function mistralVocabulary(): string {
  const sized = (text: string) => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
    return Buffer.concat([length, Buffer.from(text)]);
  };
  const names: [string, string][] = [
    ["<|begin_of_text|>", "<s>"],
    ["<|end_of_text|>", "</s>"],
    ...mistralTokens.map((name, i): [string, string] => [`<|reserved_special_token_${i}|>`, name]),
  ];
  let bytes = readFileSync(vocabulary("llama-bpe"));
  for (const [from, to] of names) {
    const at = bytes.indexOf(sized(from));
    if (at < 0) throw new Error(`the vocabulary has no ${from}`);
    bytes = Buffer.concat([bytes.subarray(0, at), sized(to), bytes.subarray(at + sized(from).length)]);
  }
  const folder = mkdtempSync(join(tmpdir(), "hone-vocabulary-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "mistral.gguf");
  writeFileSync(file, bytes);
  return file;
}

const mistral = mistralVocabulary();

/** More of them, whose conversations have no places that are alike. */
export const moreModels = [
  {
    name: "Llama-3.1",
    vocabulary: vocabulary("llama-bpe"),
    template: templateFile("meta-llama-Llama-3.1-8B-Instruct"),
  },
  { name: "Mistral Nemo", vocabulary: mistral, template: templateFile("mistralai-Mistral-Nemo-Instruct-2407") },
  { name: "Mistral Small 3.2", vocabulary: mistral, template: templateFile("Mistral-Small-3.2-24B-Instruct-2506") },
  { name: "Ministral 3", vocabulary: mistral, template: templateFile("mistralai-Ministral-3-14B-Reasoning-2512") },
  {
    name: "SmolLM2's kind",
    vocabulary: vocabulary("qwen2"),
    template: join(packageRoot, "test/rollout/support/without-tools.jinja"),
  },
];

export interface LoadedVocabulary {
  readonly model: LlamaModel;
  /** Control tokens by their text. */
  readonly control: ReadonlyMap<string, number>;
  readonly bos: string;
  readonly eos: string;
  /** Exact text of ids, made from the vocabulary's own entries. */
  decode(ids: readonly number[]): string;
}

const loaded = new Map<string, LoadedVocabulary>();

/** GPT-2's printable characters for bytes, as byte-level vocabularies spell their entries. */
function byteOfCharacter(): Map<string, number> {
  const printable = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  let next = 256;
  return new Map(
    Array.from({ length: 256 }, (_, byte) => [String.fromCharCode(printable(byte) ? byte : next++), byte]),
  );
}

export async function loadVocabulary(file: string): Promise<LoadedVocabulary> {
  const known = loaded.get(file);
  if (known) return known;
  const llama = await getLlama({ gpu: false, build: "never", logLevel: "disabled" as never });
  const model = await llama.loadModel({ modelPath: file, vocabOnly: true });
  const { metadata } = await readGgufFileInfo(file);
  const { tokens, token_type: types } = metadata.tokenizer.ggml;
  // Type 1 is "normal" in GGUF, 3 is "control".
  const control = new Map(tokens.flatMap((text, id): [string, number][] => (types[id] === 3 ? [[text, id]] : [])));
  const bytes = byteOfCharacter();
  const bytesOf = (id: number) => {
    const text = tokens[id] as string;
    return types[id] === 1 ? Buffer.from([...text].map((character) => bytes.get(character) ?? 0)) : Buffer.from(text);
  };
  const decode = (ids: readonly number[]) => Buffer.concat(ids.map(bytesOf)).toString("utf8");
  const entry = { model, control, decode, bos: model.tokens.bosString ?? "", eos: model.tokens.eosString ?? "" };
  loaded.set(file, entry);
  return entry;
}

export function chatTemplate(
  { template }: (typeof models)[number],
  vocabulary: LoadedVocabulary,
  args: Record<string, unknown> = {},
): ChatTemplate {
  const { model, control, bos, eos } = vocabulary;
  const tokenize = (text: string) => model.tokenize(text, false);
  const source = readFileSync(template, "utf8");
  return new ChatTemplate(source, { tokenize, controlTokens: control, bosText: bos, eosText: eos }, args);
}

export interface Case {
  vocabulary: string;
  /** null: that of the vocabulary's folder. */
  template: string | null;
  messages: readonly ChatMessage[];
  tools: readonly ToolSchema[];
  generation: boolean;
  /** Variables of the template. */
  args?: Record<string, unknown>;
}

export interface Rendered {
  text: string;
  ids: number[];
}

/** In one go: loading Hugging Face's tokenizers takes long. */
export function huggingFace(python: string, cases: Case[]): Rendered[] {
  const output = execFileSync(python, [join(packageRoot, "test/rollout/apply_chat_template.py")], {
    input: JSON.stringify(cases),
    maxBuffer: 2 ** 28,
    stdio: ["pipe", "pipe", "ignore"],
  });
  return JSON.parse(output.toString()) as Rendered[];
}
