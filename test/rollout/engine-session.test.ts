import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import {
  type Engine,
  type Generated,
  type GenerateOptions,
  loadEngine,
  type Sequence,
} from "../../src/engine/index.js";
import { EngineSession, templateOf } from "../../src/rollout/engine-session.js";
import type { ChatTemplate } from "../../src/rollout/index.js";
import { opening } from "../../src/rollout/rollout.js";
import type { TurnLimits } from "../../src/rollout/session.js";
import type { AnyTask, ChatMessage, Scenario } from "../../src/tasks/task.js";
import { HoneError } from "../../src/util/errors.js";
import { countingTask } from "../support/counting-task.js";

const task = countingTask as unknown as AnyTask;
const [scenario] = (await task.scenarios({})) as [Scenario];
const first = opening(task, scenario, 4);
const results: ChatMessage[] = [{ role: "tool", name: "add", content: '{"sum":2}' }];
const limits = (more: Partial<TurnLimits> = {}): TurnLimits => ({
  maxTokens: 12,
  deadline: Date.now() + 60_000,
  signal: new AbortController().signal,
  ...more,
});

let engine: Engine;
let template: ChatTemplate;
let prompt: Int32Array;

beforeAll(async () => {
  engine = await loadEngine({
    model: modelPath("qwen2-tiny-f32.gguf"),
    gpu: false,
    sequences: 4,
    contextPerSequence: 1024,
  });
  template = templateOf(engine);
  prompt = Int32Array.from(template.prompt(first.messages, first.tools));
});
afterAll(() => engine.close());

const session = (sequence: Sequence, seed: number) =>
  new EngineSession(engine, template, sequence, first, prompt, { seed });

describe("a session on the engine", () => {
  it("keeps exactly the tokens that were given and sampled, with the probabilities they were drawn with", async () => {
    const player = session(engine.open(prompt), 3);
    const turns = [];
    for (let turn = 0; turn < 3; turn++) {
      turns.push(await player.turn(limits()));
      player.respond(results);
    }
    const { ids, sampled, logprobs } = player.tokens();
    player.close();

    expect(ids.slice(0, prompt.length)).toEqual([...prompt]);
    expect(sampled.slice(0, prompt.length)).not.toContain(1);
    expect(sampled.filter((mark) => mark === 1)).toHaveLength(
      turns.reduce((sum, turn) => sum + turn.completionTokens, 0),
    );

    // Evaluated again from nothing, the same tokens are as likely as when they were drawn: all in f32, see huggingface.test.ts.
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
    expect(await player.turn(limits())).toEqual({ content: "", calls: [], completionTokens: 0, stop: "context" });
    // What did not fit is not part of the trajectory.
    expect(player.tokens().ids).toHaveLength(length);
    player.close();
  });
});

/** An engine whose sequences answer by a script; everything else is the real one's. */
function scripted(...turns: Partial<Generated>[]) {
  const asked: GenerateOptions[] = [];
  const sequence: Sequence = {
    length: 0,
    generate: async (options) => {
      asked.push(options);
      const tokens = turns[0]?.tokens ?? new Int32Array();
      const logprobs = new Float32Array(tokens.length).fill(-0.5);
      return { tokens, logprobs, rawLogprobs: logprobs, stop: "stop", waitedSeconds: 0, ...turns.shift() };
    },
    close: () => undefined,
  };
  return { player: session(sequence, 1), asked };
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

  it("by cancelling rejects with the reason of whoever cancelled", async () => {
    const { player } = scripted({ stop: "cancelled" });
    const controller = new AbortController();
    controller.abort(new Error("enough"));
    await expect(player.turn(limits({ signal: controller.signal }))).rejects.toThrow("enough");
  });
});

describe("a model that cannot play", () => {
  it.each([
    ["no chat template", null, /has no chat template/],
    ["a template without Hermes tool calls", "{{ messages }}", /has no <tool_call>/],
  ])("is refused with one line: %s", (_, chatTemplate, message) => {
    const other = { info: { ...engine.info, chatTemplate } } as Engine;
    expect(() => templateOf(other)).toThrow(message);
    expect(() => templateOf(other)).toThrow(HoneError);
  });
});
