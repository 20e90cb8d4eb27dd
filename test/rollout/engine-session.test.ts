import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import { type Chat, chatOf } from "../../src/chat/chat.js";
import { formatNamed } from "../../src/chat/formats/formats.js";
import type { ChatTemplate } from "../../src/chat/template.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import type { Generated, GenerateOptions, Sequence } from "../../src/core/engine/sequence.js";
import { EngineSession } from "../../src/core/rollout/engine-session.js";
import { opening } from "../../src/core/rollout/rollout.js";
import type { Opening, TurnLimits } from "../../src/core/rollout/session.js";
import type { AnyTask, ChatMessage, Scenario } from "../../src/core/task/task.js";
import { HoneError } from "../../src/core/util/errors.js";
import { loadEngine } from "../../src/engine/factory.js";
import { checkGiven, type GivenReader } from "../../src/guards/given.js";
import { llamaCppFiles } from "../support/bundle.js";
import { countingTask } from "../support/counting-task.js";
import { trajectoryOf } from "../train/support/fakes.js";

const task = countingTask as unknown as AnyTask;
const [scenario] = (await task.scenarios({})) as [Scenario];
const first = opening(task, scenario, 4);
const results: ChatMessage[] = [{ role: "tool", name: "add", content: '{"sum":2}' }];
const limits = (more: Partial<TurnLimits> = {}): TurnLimits => ({
  maxTokens: 12,
  seconds: 60,
  signal: new AbortController().signal,
  ...more,
});

let engine: LocalEngine;
let chat: Chat;
let template: ChatTemplate;
let prompt: Int32Array;

beforeAll(async () => {
  engine = await loadEngine({
    model: modelPath("qwen2-tiny-f32.gguf"),
    gpu: false,
    sequences: 4,
    contextPerSequence: 1024,
  });
  chat = chatOf(engine);
  template = chat.template;
  prompt = Int32Array.from(template.prompt(first.messages, first.tools));
});
afterAll(() => engine.close());

const session = (sequence: Sequence, seed: number) =>
  new EngineSession(engine, chat, sequence, first, prompt, { seed });

describe("a session on the engine", () => {
  it("keeps exactly the tokens that were given and sampled, with the probabilities they were drawn with", async () => {
    const player = session(engine.open(prompt), 3);
    const turns = [];
    for (let turn = 0; turn < 3; turn++) {
      turns.push(await player.turn(limits()));
      player.respond(results);
    }
    const { ids, sampled, logprobs, evaluated } = player.tokens();
    player.close();

    expect(ids.slice(0, prompt.length)).toEqual([...prompt]);
    expect(sampled.slice(0, prompt.length)).not.toContain(1);
    const drawn = sampled.filter((mark) => mark === 1);
    expect(drawn).toHaveLength(turns.reduce((sum, turn) => sum + turn.completionTokens, 0));
    // So the engine says, of all three turns.
    expect(evaluated?.drawn.flatMap(([from, to]) => sampled.slice(from, to))).toEqual(drawn);
    expect(evaluated?.draws?.tokens).toBe(drawn.length);

    // Evaluated again from nothing, the same tokens are as likely as when they were drawn: all in f32, see huggingface.full.test.ts.
    const scores = await engine.score(Int32Array.from(ids));
    const differences = ids.flatMap((_, i) =>
      sampled[i] === 1 ? [Math.abs((scores[i - 1] as number) - (logprobs[i] as number))] : [],
    );
    expect(Math.max(...differences)).toBeLessThan(4e-4);
  });

  it("appends what the template puts between two turns, and nothing else", async () => {
    const player = session(engine.open(prompt), 4);
    const turn = await player.turn(limits({ maxTokens: 5 }));
    player.respond(results);
    await player.turn(limits({ maxTokens: 1 }));
    const { ids } = player.tokens();
    player.close();
    expect(turn.stop).toBe("length");
    const between = ids.slice(prompt.length + 5, -2);
    expect(between).toEqual([template.closing.id, ...template.delta(first.messages, first.tools, results, true)]);
  });

  it("is read back: other tokens than its messages have are told", async () => {
    const player = session(engine.open(prompt), 4);
    const turn = await player.turn(limits({ maxTokens: 5 }));
    player.respond(results);
    const next = await player.turn(limits({ maxTokens: 3 }));
    const record = player.tokens();
    player.close();
    const said = (content: string): ChatMessage => ({ role: "assistant", content });
    const messages = [...first.messages, said(turn.content), ...results, said(next.content)];
    const reader: GivenReader = {
      ...{ template, closing: chat.closing, tools: first.tools },
      tokenize: (text) => engine.tokenize(text, { special: true }),
      detokenize: (ids) => engine.detokenize(ids, { special: true }),
    };
    const check = (at: number, ...more: number[]) => {
      const spliced = (list: readonly number[], added: number[]) => [...list.slice(0, at), ...added, ...list.slice(at)];
      const none = more.map(() => 0);
      const tokens = {
        ids: spliced(record.ids, more),
        sampled: spliced(record.sampled, none),
        logprobs: spliced(record.logprobs, none),
      };
      return checkGiven([{ ...trajectoryOf({}), messages, turns: 2, tokens }], reader);
    };
    expect(check(0)).toBeUndefined();
    expect(check(prompt.length, ...prompt.slice(-3))).toMatch(/given other tokens .*its prompt reads/);
    expect(check(prompt.length + 5, template.closing.id)).toMatch(/behind its turn 1 it reads/);
    // A thought that was cut short has given tokens within a turn: its prompt is read all the same.
    expect(check(prompt.length + 2, 1)).toBeUndefined();
  });

  it("evaluates the prompt of a group once", async () => {
    const before = engine.stats();
    const members = engine.openGroup(prompt, 4).map((sequence, index) => session(sequence, 10 + index));
    await Promise.all(members.map((member) => member.turn(limits())));
    for (const member of members) member.close();
    const after = engine.stats();
    expect(after.prefilled - before.prefilled).toBeLessThanOrEqual(prompt.length + 4);
  });

  it("repeats itself alone under the same seed, and not under another", async () => {
    const play = async (seed: number) => {
      const player = session(engine.open(prompt), seed);
      await player.turn(limits());
      const { ids } = player.tokens();
      player.close();
      return ids;
    };
    const once = await play(7);
    expect(await play(7)).toEqual(once);
    expect(await play(8)).not.toEqual(once);
  });

  it("stops by name when the context has no room for what comes next", async () => {
    const player = session(engine.open(prompt), 5);
    await player.turn(limits());
    player.respond([{ role: "tool", name: "add", content: "x ".repeat(3000) }]);
    const length = player.tokens().ids.length;
    expect(await player.turn(limits())).toMatchObject({ content: "", calls: [], completionTokens: 0, stop: "context" });
    // What did not fit is not part of the trajectory.
    expect(player.tokens().ids).toHaveLength(length);
    player.close();
  });
});

/** An engine whose sequences answer by a script; everything else is the real one's. */
function scripted(...turns: Partial<Generated>[]) {
  return scriptedWith(chat, first, ...turns);
}

function scriptedWith(how: Chat, begin: Opening, ...turns: Partial<Generated>[]) {
  const asked: GenerateOptions[] = [];
  const sequence: Sequence = {
    length: 0,
    generate: async (options) => {
      asked.push(options);
      const tokens = turns[0]?.tokens ?? new Int32Array();
      const logprobs = new Float32Array(tokens.length).fill(-0.5);
      return { tokens, logprobs, stop: "stop", waitedSeconds: 0, usedSeconds: 0, ...turns.shift() };
    },
    close: () => undefined,
  };
  return { player: new EngineSession(engine, how, sequence, begin, prompt, { seed: 1 }), asked };
}

describe("the end of a turn", () => {
  const text = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 1}}\n</tool_call>';

  it("by the template's closing token is sampled, stored, and not said twice", async () => {
    const written = engine.tokenize(text, { special: false });
    const { player, asked } = scripted(
      { tokens: Int32Array.from([...written, template.closing.id]) },
      { tokens: written },
    );
    const turn = await player.turn(limits());
    expect(turn.calls).toEqual([{ kind: "call", call: { name: "add", arguments: { a: 1, b: 1 } } }]);
    expect(turn.content).toBe("");
    player.respond(results);
    await player.turn(limits());
    expect(asked[0]?.stop).toContain(template.closing.id);
    expect([...(asked[1]?.append ?? [])]).toEqual(template.delta(first.messages, first.tools, results, true));
    const { sampled } = player.tokens();
    expect(sampled.slice(prompt.length, prompt.length + written.length + 1)).toEqual(
      new Array(written.length + 1).fill(1),
    );
  });

  it("by a cut is closed by a token that was not sampled", async () => {
    const written = engine.tokenize("and so on", { special: false });
    const { player } = scripted({ tokens: written, stop: "length" });
    expect((await player.turn(limits())).content).toBe("and so on");
    const { ids, sampled } = player.tokens();
    expect(ids.at(-1)).toBe(template.closing.id);
    expect(sampled.at(-1)).toBe(0);
  });

  it("by the deadline before any token leaves the trajectory as it was", async () => {
    const { player } = scripted({ stop: "deadline" });
    const turn = await player.turn(limits());
    expect(turn).toMatchObject({ completionTokens: 0, stop: "deadline" });
    // None of that time was the player's own.
    expect(turn.waitedSeconds).toBeGreaterThan(0);
    expect(player.tokens().ids).toEqual([...prompt]);
  });

  it("by the deadline says how much of the time the engine was busy with others", async () => {
    const written = engine.tokenize("and so on", { special: false });
    const { player } = scripted({ tokens: written, stop: "deadline", waitedSeconds: 7 });
    expect(await player.turn(limits())).toMatchObject({ stop: "deadline", waitedSeconds: 7 });
  });

  it("by the end of the whole rollout's time keeps what was written", async () => {
    const written = engine.tokenize("and so on", { special: false });
    const { player } = scripted({ tokens: written, stop: "cancelled" });
    const over = new AbortController();
    over.abort();
    const turn = await player.turn(limits({ over: over.signal }));
    expect(turn).toMatchObject({ stop: "deadline", completionTokens: written.length });
    expect(player.tokens().ids.slice(prompt.length, -1)).toEqual([...written]);
  });

  it("by cancelling rejects with the reason of whoever cancelled", async () => {
    const { player } = scripted({ stop: "cancelled" });
    const controller = new AbortController();
    controller.abort(new Error("enough"));
    await expect(player.turn(limits({ signal: controller.signal }))).rejects.toThrow("enough");
  });
});

describe("a turn that closes itself otherwise", () => {
  it("gets no closing token behind it: Llama's <|eom_id|>", async () => {
    const eom = engine.info.controlTokens.get("<|im_start|>") as number;
    const how: Chat = { ...chat, format: formatNamed("llama3"), closing: [...chat.closing, eom] };
    const call = engine.tokenize('{"name": "add", "parameters": {"a": 1, "b": 1}}', { special: false });
    const { player, asked } = scriptedWith(how, first, { tokens: Int32Array.from([...call, eom]) }, { tokens: call });
    expect((await player.turn(limits())).calls).toHaveLength(1);
    expect(asked[0]?.stop).toContain(eom);
    player.respond(results);
    await player.turn(limits());
    expect([...(asked[1]?.append ?? [])]).toEqual(template.delta(first.messages, first.tools, results, true));
  });
});

describe("calls of a model whose template has ids", () => {
  it("keep a usable id that the model wrote, and are numbered otherwise", async () => {
    const how: Chat = { ...chat, format: formatNamed("mistral"), template: { ...template, usesIds: true } as never };
    const text = `[TOOL_CALLS][{"name": "add", "arguments": {}, "id": "abcDEF123"}, {"name": "add", "arguments": {}, "id": "x"}, {"name": "add"}]`;
    const { player } = scriptedWith(how, first, { tokens: engine.tokenize(text, { special: false }), stop: "length" });
    const { calls } = await player.turn(limits());
    expect(calls.map((call) => (call.kind === "call" ? call.call.id : call.id))).toEqual([
      "abcDEF123",
      "000000002",
      "000000003",
    ]);
  });
});

describe("thoughts", () => {
  const call = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 1}}\n</tool_call>';
  const ids = (text: string) => engine.tokenize(text, { special: false });
  const thinking = (maxThinkingTokens?: number): Chat => ({
    ...{ ...chat, maxThinkingTokens },
    marks: { open: "<think>", close: "</think>", ending: "\n</think>\n\n" },
  });
  const end = () => template.closing.id;

  it("stay in the message, and calls in them are no calls", async () => {
    const text = `<think>\nI could write ${call}.\n</think>\n\n${call}`;
    const { player } = scriptedWith(thinking(), first, { tokens: Int32Array.from([...ids(text), end()]) });
    const turn = await player.turn(limits());
    expect(turn.calls).toEqual([{ kind: "call", call: { name: "add", arguments: { a: 1, b: 1 } } }]);
    expect(turn.content).toBe(`<think>\nI could write ${call}.\n</think>`);
    expect(turn.said).toBe("");
  });

  it("that are not over when the turn ends hold no call and no answer", async () => {
    const { player } = scriptedWith(thinking(), first, { tokens: ids(`<think>\n${call}`), stop: "length" });
    expect(await player.turn(limits())).toMatchObject({ calls: [], said: "" });
  });

  it("begin with the turn where the prompt has opened them", async () => {
    const how = { ...thinking(), opened: true };
    const { player } = scriptedWith(how, first, { tokens: Int32Array.from([...ids(`Hm.</think>Two.`), end()]) });
    expect(await player.turn(limits())).toMatchObject({ content: "Hm.</think>Two.", said: "Two.", calls: [] });
  });

  it("are ended at their limit by tokens that were not sampled, and the turn goes on", async () => {
    const thought = ids("<think>\nI wonder and wonder");
    const rest = Int32Array.from([...ids(call), end()]);
    const limit = thought.length;
    const how = thinking(limit);
    const wondering = { tokens: thought, stop: "length", usedSeconds: 20 } as const;
    const { player, asked } = scriptedWith(how, first, wondering, { tokens: rest });
    const turn = await player.turn(limits({ maxTokens: 100 }));
    const ending = template.encode("\n</think>\n\n");
    expect(asked.map(({ maxTokens }) => maxTokens)).toEqual([limit, 100 - limit]);
    expect(asked.map(({ seconds }) => seconds)).toEqual([60, 40]);
    expect([...(asked[1]?.append ?? [])]).toEqual(ending);
    expect(turn).toMatchObject({ stop: "stop", said: "", completionTokens: thought.length + rest.length });
    expect(turn.calls).toEqual([{ kind: "call", call: { name: "add", arguments: { a: 1, b: 1 } } }]);
    const record = player.tokens();
    expect(record.ids).toEqual([...prompt, ...thought, ...ending, ...rest]);
    const marks = [
      [0, prompt.length],
      [1, thought.length],
      [0, ending.length],
      [1, rest.length],
    ] as const;
    expect(record.sampled).toEqual(marks.flatMap(([mark, count]) => new Array<number>(count).fill(mark)));
    expect(record.logprobs.every((logprob, i) => (record.sampled[i] === 1) === logprob < 0)).toBe(true);
    expect(player.promptTokens()).toBe(prompt.length + ending.length);
  });

  it.each([
    ["that ended before the limit", "<think>\nTwo.\n</think>\n\nI say"],
    ["of which the turn has none", "I say that it is"],
  ])("%s need no ending: the turn goes on by itself", async (_, text) => {
    const { player, asked } = scriptedWith(
      thinking(ids(text).length),
      first,
      { tokens: ids(text), stop: "length" },
      { tokens: Int32Array.from([...ids(" two"), end()]) },
    );
    const turn = await player.turn(limits({ maxTokens: 100 }));
    expect(asked[1]?.append).toHaveLength(0);
    expect(turn.content).toBe(`${text} two`);
    expect(player.tokens().sampled.slice(prompt.length)).not.toContain(0);
  });

  it("keep no ending after which nothing was sampled", async () => {
    const thought = ids("<think>\nI wonder");
    const how = thinking(thought.length);
    const { player } = scriptedWith(how, first, { tokens: thought, stop: "length" }, { stop: "deadline" });
    const turn = await player.turn(limits({ maxTokens: 100 }));
    expect(turn).toMatchObject({ stop: "deadline", completionTokens: thought.length });
    expect(player.tokens().ids).toEqual([...prompt, ...thought, end()]);
  });

  it("of earlier turns stay in the history, token for token, although Qwen3's template removes them", async () => {
    const qwen3 = readFileSync(join(llamaCppFiles(), "models/templates/Qwen-Qwen3-0.6B.jinja"), "utf8");
    const how = chatOf({
      ...engine,
      info: { ...engine.info, chatTemplate: qwen3 },
      tokenize: engine.tokenize.bind(engine),
      detokenize: engine.detokenize.bind(engine),
    } as LocalEngine);
    const begin: Opening = { messages: first.messages, tools: [] };
    const said = Int32Array.from([...ids("<think>\nMany.\n</think>\n\nHow many?"), end()]);
    const answer: ChatMessage = { role: "user", content: "Two." };
    const { player, asked } = scriptedWith(how, begin, { tokens: said }, { tokens: said });
    await player.turn(limits());
    player.respond([answer]);
    await player.turn(limits());
    const between = how.template.delta(begin.messages, [], [answer], true);
    expect([...(asked[1]?.append ?? [])]).toEqual(between);
    expect(player.tokens().ids).toEqual([...prompt, ...said, ...between, ...said]);
    const rendered = how.template.promptText(
      [...begin.messages, { role: "assistant", content: "<think>\nMany.\n</think>\n\nHow many?" }, answer],
      [],
    );
    expect(rendered).toContain("assistant\nHow many?");
    expect(rendered).not.toContain("Many.");
  });

  it("are limited by the engine itself just so, and what it evaluates is what is kept", async () => {
    const how: Chat = { ...thinking(6), opened: true };
    const player = new EngineSession(engine, how, engine.open(prompt), first, prompt, { seed: 9 });
    const turn = await player.turn(limits({ maxTokens: 12 }));
    const { ids: all, sampled, logprobs } = player.tokens();
    player.close();
    const ending = template.encode("\n</think>\n\n");
    expect(turn.completionTokens).toBe(12);
    expect(all.slice(prompt.length + 6, prompt.length + 6 + ending.length)).toEqual(ending);
    const scores = await engine.score(Int32Array.from(all));
    const differences = all.flatMap((_, i) =>
      sampled[i] === 1 ? [Math.abs((scores[i - 1] as number) - (logprobs[i] as number))] : [],
    );
    expect(differences).toHaveLength(12);
    expect(Math.max(...differences)).toBeLessThan(4e-4);
  });
});

describe("a model that cannot play", () => {
  it.each([["no chat template", null, /has no chat template/]])(
    "is refused with one line: %s",
    (_, chatTemplate, message) => {
      const other = { info: { ...engine.info, chatTemplate } } as LocalEngine;
      expect(() => chatOf(other)).toThrow(message);
      expect(() => chatOf(other)).toThrow(HoneError);
    },
  );
});
