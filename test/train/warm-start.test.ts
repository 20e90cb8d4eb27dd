import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { type Chat, chatOf } from "../../src/chat/chat.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { type AnyTask, type ChatMessage, toolSchema } from "../../src/core/task/task.js";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadEngine } from "../../src/engine/factory.js";
import {
  type ImitationSource,
  openWorkplace,
  tokensOfMessages,
  writeImitationBatch,
} from "../../src/trainer/warm-start.js";
import { countingTask } from "../support/counting-task.js";
import { withTemplate } from "../support/with-template.js";

const model = () => modelPath("qwen2-tiny-f16.gguf");
const task = countingTask as unknown as AnyTask;
const tools = task.tools.map((tool) => toolSchema(tool));
const functions = tools.map((tool) => tool.function);
const withoutTools = readFileSync(join(packageRoot, "test/rollout/support/without-tools.jinja"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "hone-warm-"));

const messages: ChatMessage[] = [
  { role: "system", content: "You add numbers." },
  { role: "user", content: "What is 2 + 2? Do not write <|im_end|> yourself." },
  { role: "assistant", content: "", tool_calls: [{ name: "add", arguments: { a: 2, b: 2 } }] },
  { role: "tool", name: "add", content: '{"sum":4}' },
  { role: "assistant", content: "", tool_calls: [{ name: "answer", arguments: { value: 4 } }] },
];

const trajectory = (id: string, more: Partial<Trajectory> = {}): Trajectory => ({
  id: `${id}/0`,
  task: "counting",
  scenario: { id, split: "train", question: "What is 2 + 2?" },
  index: 0,
  seed: 1,
  player: { kind: "expert", model: "counting", adapter: null, temperature: 0 },
  messages,
  calls: [],
  end: "answered",
  turns: 2,
  maxTurns: 10,
  reward: { reward: 1, success: true, parts: {} },
  completionTokens: 0,
  promptTokens: 0,
  seconds: { total: 0, player: 0, queue: 0, tools: 0 },
  ...more,
});

let engine: LocalEngine;

async function imitationBatch(trajectories: Trajectory[], more: Partial<ImitationSource> = {}) {
  const file = join(folder, "rollouts.jsonl");
  writeFileSync(file, trajectories.map((one) => `${JSON.stringify(one)}\n`).join(""));
  const source = { file, engine, task, successes: false, chat: {}, ...more };
  return writeImitationBatch(source, join(folder, "batch.safetensors"));
}

describe("batch of imitation", () => {
  let chat: Chat;
  beforeAll(async () => {
    await ensureTestModels(["tiny"], () => undefined);
    engine = await loadEngine({ model: model(), gpu: false, threads: 1, sequences: 1, contextPerSequence: 64 });
    chat = chatOf(engine);
  }, 900_000);
  afterAll(() => engine.close());

  it("are written with the variables of the template that were given", async () => {
    const chat = { templateArg: { enable_thinking: false } };
    await expect(imitationBatch([], { chat })).rejects.toThrow(/--template-arg enable_thinking: .* no such variable/);
  });

  it("of an imported conversation show the tools that it had, whatever the task", async () => {
    const own = [{ ...(tools[0] as (typeof tools)[number]) }];
    const imported = trajectory("log", { task: "imported", tools: own });
    const { tokens } = await imitationBatch([imported]);
    expect(tokens).toBe(tokensOfMessages(messages, own, chat).ids.length);
    expect(tokens).not.toBe(tokensOfMessages(messages, tools, chat).ids.length);
    await expect(imitationBatch([trajectory("other", { task: "imported" })])).rejects.toThrow(
      /rollouts of the task imported/,
    );
  });

  it("hold what a task replied as something given", () => {
    const talk: ChatMessage[] = [
      { role: "user", content: "Which?" },
      { role: "assistant", content: "one" },
      { role: "user", content: "No." },
      { role: "assistant", content: "two" },
    ];
    const { ids, sampled } = tokensOfMessages(talk, [], chat);
    const learnt = engine.detokenize(
      ids.filter((_, i) => sampled[i] === 1),
      { special: true },
    );
    expect(learnt).toBe(["one", "two"].map((text) => text + chat.template.closing.text).join(""));
  });

  it("are the assistant's turns, closing token included, as the model's template writes them", () => {
    const { ids, sampled } = tokensOfMessages(messages, tools, chat);
    const learnt: string[] = [];
    for (const [i, id] of ids.entries()) {
      if (sampled[i] !== 1) continue;
      if (sampled[i - 1] !== 1) learnt.push("");
      learnt.push(learnt.pop() + engine.detokenize([id], { special: true }));
    }
    expect(learnt).toEqual([
      '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 2}}\n</tool_call><|im_end|>',
      '<tool_call>\n{"name": "answer", "arguments": {"value": 4}}\n</tool_call><|im_end|>',
    ]);
  });

  it("read as the template renders the whole conversation", () => {
    const more: ChatMessage[] = [
      { role: "user", content: "And 3 + 3?" },
      { role: "assistant", content: "6" },
    ];
    const { ids } = tokensOfMessages([...messages, ...more], tools, chat);
    const whole = chat.template.promptText([...messages, ...more, { role: "user", content: "!" }], tools);
    expect(whole.startsWith(engine.detokenize(ids, { special: true }))).toBe(true);
  });

  it("take the tokens that this model sampled as they are, and write those of other models anew", async () => {
    const tokens = { ids: [1, 2, 3], sampled: [0, 1, 1], logprobs: [0, -1, -1] };
    const player = { kind: "engine" as const, model: model(), adapter: null, temperature: 1 };
    expect((await imitationBatch([trajectory("a", { player, tokens })])).tokens).toBe(3);
    const other = { ...player, model: "/elsewhere/other.gguf" };
    expect((await imitationBatch([trajectory("a", { player: other, tokens })])).tokens).toBeGreaterThan(100);
  });

  describe("under a template that has no tools", () => {
    const bare = () => withTemplate(engine, withoutTools);

    it("are refused where calls are to be learnt, with what to do", async () => {
      const refused = imitationBatch([trajectory("a")], { engine: bare() });
      await expect(refused).rejects.toThrow(HoneError);
      await expect(refused).rejects.toThrow(
        /^the rollout a\/0 of .*rollouts\.jsonl has tool calls, and the chat template of .* writes none: they would not be learnt\.\nName .* with --tool-format \(hermes, llama3, mistral, granite, pythonic, xlam, phi4, qwen3coder, lfm2, json\)/,
      );
      const talk = messages.map(({ role }) => ({ role, content: "text" }) as ChatMessage);
      const plain = await imitationBatch([trajectory("a", { messages: talk })], { engine: bare() });
      expect(plain.trajectories).toBe(1);
    });

    it.each(["hermes", "llama3", "mistral", "qwen3coder"])(
      "have their calls in the format that was named: %s",
      (toolFormat) => {
        const written = chatOf(bare(), { toolFormat });
        const text = (call: ChatMessage) => {
          const { ids, sampled } = tokensOfMessages([...messages.slice(0, 2), call], tools, written);
          const learnt = ids.filter((_, index) => sampled[index] === 1);
          expect(learnt.at(-1)).toBe(written.template.closing.id);
          return engine.detokenize(learnt.slice(0, -1), { special: true });
        };
        const call = { name: "add", arguments: { a: 2, b: 2 } };
        const said = text({ role: "assistant", content: "Let me see.", tool_calls: [call] });
        expect(written.format?.read(said, functions)).toEqual({
          content: "Let me see.",
          calls: [{ kind: "call", call }],
        });
      },
    );

    it("keep special tokens inside of arguments as text", () => {
      const { control } = { control: [...engine.info.controlTokens.values()] };
      const call = { name: "add", arguments: { a: "<|im_end|>\n<|im_start|>system" } };
      const turn: ChatMessage = { role: "assistant", content: "<|im_end|>", tool_calls: [call] };
      const written = chatOf(bare(), { toolFormat: "hermes" });
      const ids = written.template.turn(messages.slice(0, 2), tools, turn, written.write);
      expect(ids.filter((id) => control.includes(id))).toEqual([written.template.closing.id]);
      expect(written.format?.read(engine.detokenize(ids.slice(0, -1)), functions).calls).toEqual([
        { kind: "call", call },
      ]);
    });
  });

  it("can leave out what was not solved, and count it", async () => {
    const failed = trajectory("b", { reward: { reward: 0.5, success: false, parts: {} } });
    expect(await imitationBatch([trajectory("a"), failed])).toMatchObject({ read: 2, unsolved: 0, trajectories: 2 });
    const chosen = await imitationBatch([trajectory("a"), failed], { successes: true });
    expect(chosen).toMatchObject({ read: 2, unsolved: 1, trajectories: 1 });
    await expect(imitationBatch([failed], { successes: true })).rejects.toThrow(
      /nothing to learn from: 1 were not solved/,
    );
  });

  it("leave out rollouts with a sequence that is longer than the model's context, and count them", async () => {
    const { trainedContext: context } = engine.info;
    const player = { kind: "engine" as const, model: model(), adapter: null, temperature: 1 };
    const ofLength = (length: number) => ({
      ids: Array(length).fill(1),
      sampled: Array.from({ length }, (_, i) => Number(i > 0)),
      logprobs: Array(length).fill(0),
    });
    const branches = [{ messages: [], tokens: ofLength(context + 1) }];
    const [fits, long] = [context, 3].map((length) => ({ player, tokens: ofLength(length) }));
    const learnt = await imitationBatch([trajectory("a", fits), trajectory("b", { ...long, branches })]);
    expect(learnt).toMatchObject({ read: 2, tooLong: 1, trajectories: 1, tokens: context });
  });

  it("refuse rollouts of another task", async () => {
    await expect(imitationBatch([trajectory("a", { task: "email" })])).rejects.toThrow(
      /rollouts of the task email, not counting/,
    );
  });

  it("refuse an empty file", async () => {
    await expect(imitationBatch([])).rejects.toThrow(/nothing to learn from: it is empty/);
  });
});

describe("the folder of a result", () => {
  const place = () => join(mkdtempSync(join(tmpdir(), "hone-workplace-")), "a", "b");

  it("belongs to one process at a time", () => {
    const into = place();
    const compiled = pathToFileURL(join(packageRoot, "dist/src/trainer/warm-start.js")).href;
    const program = `
      import { openWorkplace } from ${JSON.stringify(compiled)};
      try { openWorkplace(${JSON.stringify(into)}).end(); console.log("free"); } catch (error) { console.log(error.message); }`;
    const asked = () =>
      spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" }).stdout.trim();
    const { end } = openWorkplace(into);
    expect(asked()).toBe(`another process writes to ${into}; wait until it ends, or give another folder with --out`);
    end();
    expect(asked()).toBe("free");
  });

  it("keeps an earlier result until the new one is whole", () => {
    const into = place();
    const write = (folder: string, text: string) => {
      mkdirSync(join(folder, "adapter"));
      for (const name of ["adapter.gguf", "adapter/weights", "manifest.json"]) writeFileSync(join(folder, name), text);
    };
    const read = () =>
      ["adapter.gguf", "adapter/weights", "manifest.json"].map((name) => readFileSync(join(into, name), "utf8"));
    const first = openWorkplace(into);
    write(first.draft, "first");
    first.publish();
    first.end();
    writeFileSync(join(into, "notes"), "mine");
    const broken = openWorkplace(into);
    writeFileSync(join(broken.draft, "adapter.gguf"), "half");
    broken.end();
    expect(read()).toEqual(["first", "first", "first"]);
    const second = openWorkplace(into);
    expect(readdirSync(second.draft)).toEqual([]);
    write(second.draft, "second");
    expect(read()).toEqual(["first", "first", "first"]);
    second.publish();
    second.end();
    expect(read()).toEqual(["second", "second", "second"]);
    expect(existsSync(join(into, "notes"))).toBe(true);
    expect(existsSync(join(into, ".batch"))).toBe(false);
  });
});
