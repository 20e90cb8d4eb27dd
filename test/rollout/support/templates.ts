/** Chat templates of several models over their real vocabularies, and what Hugging Face makes of the same conversations. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getLlama, type LlamaModel, readGgufFileInfo } from "node-llama-cpp";
import { ChatTemplate } from "../../../src/chat/template.js";
import type { ChatMessage, ToolSchema } from "../../../src/core/task/task.js";
import { packageRoot } from "../../../src/core/util/paths.js";
import { llamaCppFiles } from "../../support/bundle.js";

const files = llamaCppFiles();
const vocabulary = (name: string) => join(files, `models/ggml-vocab-${name}.gguf`);
const templateFile = (name: string) => join(files, `models/templates/${name}.jinja`);

/** Mistral's control tokens, in the place of Llama's: llama.cpp's files have no vocabulary of Mistral's. */
const mistralTokens = [
  "[INST]",
  "[/INST]",
  "[AVAILABLE_TOOLS]",
  "[/AVAILABLE_TOOLS]",
  "[TOOL_RESULTS]",
  "[/TOOL_RESULTS]",
  "[TOOL_CALLS]",
  "[SYSTEM_PROMPT]",
  "[/SYSTEM_PROMPT]",
  "[CALL_ID]",
  "[ARGS]",
  "[TOOL_CONTENT]",
  "[THINK]",
  "[/THINK]",
];

/** Qwen3's tokens that are no control tokens, by their ids; llama.cpp's file has names such as [PAD151657] for them. */
const qwenTokens: Readonly<Record<number, string>> = {
  151657: "<tool_call>",
  151658: "</tool_call>",
  151665: "<tool_response>",
  151666: "</tool_response>",
  151667: "<think>",
  151668: "</think>",
};

const folder = mkdtempSync(join(tmpdir(), "hone-vocabulary-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));

/** A vocabulary of llama.cpp's with other names for some tokens. A GGUF text is its length and its bytes. */
function renamed(base: string, name: string, names: readonly (readonly [from: string, to: string])[]): string {
  const sized = (text: string) => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
    return Buffer.concat([length, Buffer.from(text)]);
  };
  let bytes = readFileSync(vocabulary(base));
  for (const [from, to] of names) {
    const at = bytes.indexOf(sized(from));
    if (at < 0) throw new Error(`the vocabulary has no ${from}`);
    bytes = Buffer.concat([bytes.subarray(0, at), sized(to), bytes.subarray(at + sized(from).length)]);
  }
  const file = join(folder, `${name}.gguf`);
  writeFileSync(file, bytes);
  return file;
}

const mistral = renamed("llama-bpe", "mistral", [
  ["<|begin_of_text|>", "<s>"],
  ["<|end_of_text|>", "</s>"],
  ...mistralTokens.map((name, i) => [`<|reserved_special_token_${i}|>`, name] as const),
]);
const qwen = renamed(
  "qwen2",
  "qwen",
  Object.entries(qwenTokens).map(([id, text]) => [`[PAD${id}]`, text] as const),
);

export const models = [
  { name: "Qwen2.5", vocabulary: qwen, template: templateFile("Qwen-Qwen2.5-7B-Instruct") },
  { name: "Qwen3", vocabulary: qwen, template: templateFile("Qwen-Qwen3-0.6B") },
  { name: "Llama-3", vocabulary: vocabulary("llama-bpe"), template: templateFile("meta-llama-Llama-3.2-3B-Instruct") },
  {
    name: "hone tiny",
    vocabulary: join(packageRoot, "models/tiny/tiny.gguf"),
    template: join(packageRoot, "models/tiny/chat_template.jinja"),
  },
];

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
    vocabulary: qwen,
    template: join(packageRoot, "test/rollout/support/without-tools.jinja"),
  },
];

export interface LoadedVocabulary {
  readonly model: LlamaModel;
  /** Control tokens by their text. */
  readonly control: ReadonlyMap<string, number>;
  /** Other tokens that are found in any text. */
  readonly added: ReadonlyMap<string, number>;
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
  // Type 1 is "normal" in GGUF, 3 is "control", 4 is "user-defined".
  const ofType = (type: number) =>
    new Map(tokens.flatMap((text, id): [string, number][] => (types[id] === type ? [[text, id]] : [])));
  const control = ofType(3);
  const bytes = byteOfCharacter();
  const bytesOf = (id: number) => {
    const text = tokens[id] as string;
    return types[id] === 1 ? Buffer.from([...text].map((character) => bytes.get(character) ?? 0)) : Buffer.from(text);
  };
  const decode = (ids: readonly number[]) => Buffer.concat(ids.map(bytesOf)).toString("utf8");
  const [bos, eos] = [model.tokens.bosString ?? "", model.tokens.eosString ?? ""];
  const entry = { model, control, added: ofType(4), decode, bos, eos };
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
  const framing = framingOf({ template }, vocabulary);
  return new ChatTemplate(
    { chat: source, tools: null },
    { tokenize, controlTokens: control, framing, bosText: bos, eosText: eos },
    args,
  );
}

/** The texts that are tokens, are no control tokens, and stand in the template. */
export function framingOf({ template }: { readonly template: string }, { added }: LoadedVocabulary): string[] {
  const source = readFileSync(template, "utf8");
  return [...added.keys()].filter((text) => source.includes(text));
}

/** The same messages or tools with marks in the place of framing texts where a question, a tool or a call has them. */
function marked<T>(value: T, framing: readonly string[]): T {
  const mark = (one: unknown): unknown => {
    if (typeof one === "string") {
      return framing.reduce((text, frame, index) => text.replaceAll(frame, `\ue100${index}\ue101`), one);
    }
    if (Array.isArray(one)) return one.map(mark);
    if (typeof one !== "object" || one === null) return one;
    const { role, content } = one as { role?: unknown; content?: unknown };
    const entries = Object.entries(one).map(([key, item]) => [mark(key), mark(item)]);
    // What the task and the model say is theirs.
    const own = role === "system" || role === "assistant" ? { content } : {};
    return { ...Object.fromEntries(entries), ...own };
  };
  return mark(value) as T;
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
  /** Texts that are tokens of the template, the task and the model alone. */
  framing?: readonly string[];
}

export interface Rendered {
  text: string;
  ids: number[];
}

/** In one go: loading Hugging Face's tokenizers takes long. */
export function huggingFace(python: string, cases: Case[]): Rendered[] {
  const output = execFileSync(python, [join(packageRoot, "test/rollout/apply_chat_template.py")], {
    input: JSON.stringify(
      cases.map(({ messages, tools, framing = [], ...one }) => ({
        ...one,
        messages: marked(messages, framing),
        tools: marked(tools, framing),
        framing,
      })),
    ),
    maxBuffer: 2 ** 28,
    stdio: ["pipe", "pipe", "ignore"],
  });
  return JSON.parse(output.toString()) as Rendered[];
}
