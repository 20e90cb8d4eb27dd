/** SentencePiece vocabularies, and what looks like them, from a folder in Hugging Face form to tokens; families.full.test.ts trains such a model. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { chatOf } from "../../src/chat/chat.js";
import type { ChatMessage } from "../../src/core/task/task.js";
import { loadEngine } from "../../src/engine/factory.js";
import type { ModelIo } from "../../src/machine/models/io.js";
import { resolveModel } from "../../src/machine/models/resolve.js";
import { huggingFace } from "../rollout/support/templates.js";
import { ensureLearnerPython } from "../support/python.js";
import { awkward } from "./support/chatter-task.js";

const home = mkdtempSync(join(tmpdir(), "hone-sentencepiece-"));
const io: ModelIo = { log: () => undefined, update: () => undefined };
const question: ChatMessage[] = [
  // A text that begins with a space, behind text and behind a control token, says which tokenizer it is.
  { role: "user", content: `two  spaces? ${awkward}` },
  { role: "assistant", content: "yes" },
  { role: "user", content: "and  then?" },
];
const said: ChatMessage = { role: "assistant", content: `Hello ${awkward}` };
let python: string;

beforeAll(async () => {
  python = await ensureLearnerPython();
  await ensureTestModels(["published"], () => undefined);
}, 900_000);
afterAll(() => rmSync(home, { recursive: true }));

/** A copy with other contents of a JSON file. */
function copy(
  name: string,
  file: string,
  change: (content: Record<string, unknown>) => void,
  model = "llama2-small",
): string {
  const folder = join(home, name);
  cpSync(modelPath(model), folder, { recursive: true });
  const content = JSON.parse(readFileSync(join(folder, file), "utf8"));
  change(content);
  writeFileSync(join(folder, file), JSON.stringify(content));
  return folder;
}

const gguf = (folder: string) =>
  resolveModel(
    folder,
    {
      home,
      weights: undefined,
      python,
      hfEndpoint: "http://127.0.0.1:1",
      hfToken: undefined,
      hfOffline: true,
      hfHome: home,
      hfCache: undefined,
    },
    io,
  );

/** That prompts and turns have the tokens that Hugging Face's tokenizer makes of the same folder. */
async function expectTokensOf(folder: string): Promise<void> {
  const model = await gguf(folder);
  const asked = { vocabulary: folder, template: null, tools: [] };
  const [before, whole] = huggingFace(python, [
    { ...asked, messages: question, generation: true },
    { ...asked, messages: [...question, said], generation: false },
  ]).map(({ ids }) => ids) as [number[], number[]];
  const engine = await loadEngine({ model, gpu: false, threads: 1, sequences: 1, contextPerSequence: 512 });
  const { template } = chatOf(engine, {});
  const [prompt, turn] = [template.prompt(question, []), template.turn(question, [], said)];
  const middle = engine.detokenize(template.encode("Hello"));
  await engine.close();
  expect(prompt).toEqual(before);
  expect(turn).toEqual(whole.slice(prompt.length, prompt.length + turn.length));
  // As text that goes on with a turn.
  expect(middle).toBe("Hello");
}

it.each([
  ["before every text", true],
  ["before none", false],
])("a tokenizer that puts a space %s makes the same tokens as Hugging Face's", async (_, legacy) => {
  const folder = copy(`legacy-${legacy}`, "tokenizer_config.json", (about) => {
    about.legacy = legacy;
  });
  await expectTokensOf(folder);
});

it("byte-level BPE that transformers saved with SentencePiece's byte_fallback makes the same tokens", async () => {
  // As transformers writes the tokenizer of a Llama that it read from a GGUF file.
  const byteLevel = { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true };
  const decoders = [{ type: "ByteFallback" }, { type: "Fuse" }, byteLevel];
  const folder = copy(
    "byte-level",
    "tokenizer.json",
    (content) => {
      Object.assign(content.model as object, { byte_fallback: true });
      content.decoder = { type: "Sequence", decoders };
    },
    "llama3.2-small",
  );
  await expectTokensOf(folder);
});

it("a tokenizer that is not the one of tokenizer.model is refused before the conversion", async () => {
  const folder = copy("other", "tokenizer.json", (content) => {
    const { vocab } = content.model as { vocab: Record<string, number> };
    const [one, another] = [vocab["\u2581Hello"] as number, vocab["\u2581World"] as number];
    Object.assign(vocab, { "\u2581Hello": another, "\u2581World": one });
  });
  await expect(gguf(folder)).rejects.toThrow(
    /^other cannot be converted: its SentencePiece vocabulary is not the one of its tokenizer: 'Hello' is \[\d+\] by/,
  );
});
