/**
 * Every kind of model that the catalogue names, by the whole way of a user: a small model of random weights with the real
 * vocabulary and chat template is downloaded, converted, played, learnt from. Its prompts are Hugging Face's, token by token.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { chatOf } from "../../src/chat/chat.js";
import { formatNamed } from "../../src/chat/formats/formats.js";
import { RunStore } from "../../src/core/run/store.js";
import { type ChatMessage, toolSchema } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadEngine } from "../../src/engine/factory.js";
import { modelShape } from "../../src/engine/models.js";
import { mismatchLimit } from "../../src/guards/mismatch.js";
import { catalogue, shapeOf } from "../../src/machine/models/catalogue.js";
import { huggingFace } from "../rollout/support/templates.js";
import { HubServer } from "../support/hub-server.js";
import { ensureLearnerPython } from "../support/python.js";
import chatter, { awkward } from "./support/chatter-task.js";
import { runHone } from "./support/cli.js";

/** A weight type with each: all of them are read by both. */
const models = [
  { name: "qwen2.5-small", family: "qwen2.5", tied: true, weights: "q8_0" },
  { name: "qwen2.5-small-untied", family: "qwen2.5", tied: false, weights: "bf16" },
  { name: "qwen3-small", family: "qwen3", tied: true, weights: "f16" },
  { name: "qwen3-small-untied", family: "qwen3", tied: false, weights: "q8_0" },
  { name: "llama3.2-small", family: "llama3.2", tied: true, weights: "f16" },
  // Of no entry: a vocabulary of SentencePiece's.
  { name: "llama2-small", family: undefined, tied: false, weights: "f16", more: ["--tool-format", "hermes"] },
  { name: "mistral-small", family: undefined, tied: false, weights: "bf16", more: ["--tool-format", "mistral"] },
  { name: "gemma3-small", family: undefined, tied: true, weights: "bf16", more: ["--tool-format", "hermes"] },
] as const;

const home = mkdtempSync(join(tmpdir(), "hone-families-"));
const task = ["--task", join(packageRoot, "test/models/support/chatter-task.ts"), "--gpu", "off", "--threads", "1"];
const small =
  "--groups-per-step 1 --group-size 2 --max-tokens 6 --max-turns 1 --validate-n 1 --context 1024 --steps 1".split(" ");
const reply: ChatMessage = { role: "user", content: `And this? ${awkward}` };
const tools = chatter.tools.map((tool) => toolSchema(tool));
let python: string;
let server: HubServer;

beforeAll(async () => {
  python = await ensureLearnerPython();
  await ensureTestModels(["published"], () => undefined);
  const files = (name: string) =>
    Object.fromEntries(readdirSync(modelPath(name)).map((file) => [file, readFileSync(join(modelPath(name), file))]));
  server = new HubServer(Object.fromEntries(models.map(({ name }) => [`Org/${name}`, files(name)])));
  await server.start();
}, 900_000);
afterAll(async () => {
  await server?.stop();
  rmSync(home, { recursive: true, force: true });
});

describe.each(models)("$name", ({ name, weights, tied, ...of }) => {
  it(`is downloaded, converted to ${weights}, played and learnt from, with the prompts of Hugging Face`, async () => {
    const more = "more" in of ? of.more : [];
    const args = ["train", "--model", `Org/${name}`, "--weights", weights, ...task, ...small, ...more];
    const run = await runHone(home, args, { HF_ENDPOINT: server.endpoint, HONE_PYTHON: python });
    expect(run.status, run.stderr).toBe(0);
    expect(run.stdout).toContain(`converting Org/${name} to GGUF with ${weights} weights, once`);
    const place = join(home, ".hone/chatter/models", name);
    expect(existsSync(join(place, "checkpoints/0001/adapter.gguf"))).toBe(true);
    const store = RunStore.read(join(place, "run.sqlite"));
    const { metrics } = store.lastStep();
    const rollouts = store.rollouts("train", 1);
    store.close();
    expect(metrics?.updates).toBe(1);
    expect(metrics?.mismatch?.mean).toBeLessThan(mismatchLimit(weights));

    const made = readdirSync(join(home, ".hone/gguf")).find((file) => file.startsWith(`Org--${name}-${weights}-`));
    const file = join(home, ".hone/gguf", made as string);
    const shape = await modelShape(file);
    expect(shape.weightType.toLowerCase()).toBe(weights);
    const table = shape.embedding * shape.vocabulary;
    expect(shape.parameters).toBeLessThan((tied ? 1 : 2) * table + table / 2);
    expect(shape.parameters).toBeGreaterThan((tied ? 1 : 2) * table);

    // Where the template shows no tools, they stand in the system message.
    const writer = "more" in of ? formatNamed(of.more[1]) : undefined;
    const told: ChatMessage[] = writer ? [{ role: "system", content: writer.describe(tools) }] : [];
    const asked = { vocabulary: modelPath(name), template: null, tools: writer ? [] : tools, generation: true };
    const messages = rollouts.map((rollout) => rollout.messages.slice(0, 1));
    const answered = [...(messages[0] as ChatMessage[]), { role: "assistant" as const, content: "yes" }, reply];
    const theirs = huggingFace(
      python,
      [...messages, answered].map((one) => ({ ...asked, messages: [...told, ...one] })),
    ).map(({ ids }) => ids);
    expect(rollouts.map(({ tokens }) => tokens?.ids.slice(0, tokens.sampled.indexOf(1)))).toEqual(theirs.slice(0, -1));

    // What is appended behind a turn: a model of random weights ends none.
    const engine = await loadEngine({ model: file, gpu: false, threads: 1, sequences: 1, contextPerSequence: 512 });
    const { template } = chatOf(engine, {});
    const delta = template.delta(messages[0] as ChatMessage[], tools, [reply], true);
    await engine.close();
    expect(delta.length).toBeGreaterThan(40);
    expect(delta).toEqual(theirs.at(-1)?.slice(-delta.length));
  });
});

it("no entry of the catalogue is of a kind that is not trained here", () => {
  for (const [name, entry] of catalogue()) {
    // wheel.full.test.ts trains those of a package index themselves.
    if (!("repository" in entry)) continue;
    const { family, shape } = entry;
    const kinds = models.map((model) => `${model.family} ${model.tied}`);
    expect(kinds, name).toContain(`${family} ${shape.tied}`);
  }
});

it("an entry has as many weights as its model card says", () => {
  const cards = {
    "qwen2.5-0.5b": 0.49,
    "qwen2.5-1.5b": 1.54,
    "qwen2.5-3b": 3.09,
    "qwen2.5-7b": 7.61,
    "qwen2.5-14b": 14.7,
    "qwen2.5-32b": 32.8,
    "qwen3-0.6b": 0.6,
    "qwen3-1.7b": 1.7,
    "qwen3-4b": 4.0,
    "qwen3-8b": 8.2,
    "qwen3-14b": 14.8,
    "llama3.2-1b": 1.23,
    "llama3.2-3b": 3.21,
    "smollm2-135m-q4_1": 0.135,
  };
  const entries = [...catalogue()].flatMap(([name, entry]) => ("path" in entry ? [] : [[name, entry] as const]));
  expect(entries.map(([name]) => name)).toEqual(Object.keys(cards));
  for (const [name, entry] of entries) {
    const ratio = shapeOf(entry, "f16").parameters / 1e9 / cards[name as keyof typeof cards];
    expect(Math.abs(ratio - 1), name).toBeLessThan(0.015);
  }
});
