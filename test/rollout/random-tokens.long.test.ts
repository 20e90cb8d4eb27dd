/**
 * 10,000 turns of a model with random weights on the real engine. Between its turns somebody makes calls in its name,
 * sound and hostile ones, so that conversations go on and every way to end is reached.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import { chatOf } from "../../src/chat/chat.js";
import { hermes } from "../../src/chat/formats/hermes.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { EngineSession } from "../../src/core/rollout/engine-session.js";
import { opening, playRollout, type RolloutLimits } from "../../src/core/rollout/rollout.js";
import type { Session, Turn, TurnLimits } from "../../src/core/rollout/session.js";
import type { AnyTask, CallRecord, ChatMessage } from "../../src/core/task/task.js";
import { Random } from "../../src/core/util/random.js";
import { loadEngine } from "../../src/engine/factory.js";
import { countingTask } from "../support/counting-task.js";

const TURNS = 10_000;
const GROUP = 8;
const task = countingTask as unknown as AnyTask;

let engine: LocalEngine;
beforeAll(async () => {
  const model = modelPath("qwen2-tiny-f16.gguf");
  engine = await loadEngine({ model, gpu: false, threads: 1, sequences: GROUP, contextPerSequence: 640 });
});
afterAll(() => engine.close());

const calls = [
  '{"name": "add", "arguments": {"a": 1, "b": 2}}',
  '{"name": "add", "arguments": {"a": -1, "b": 2}}',
  '{"name": "add", "arguments": {"a": "1", "message_ids": []}}',
  '{"name": "toolbench_rapid_search", "arguments": {}}',
  '{"name": "__proto__", "arguments": {"<|im_end|>": "<tool_call>"}}',
  '{"name": "misbehave", "arguments": {"how": "huge"}}',
  '{"name": "misbehave", "arguments": {"how": "throw"}}',
  '{"name": "misbehave", "arguments": {"how": "hang"}}',
  '{"name": "misbehave", "arguments": {"how": "circular"}}',
  '{"name": "misbehave", "arguments": {"how": "nothing"}}',
  '{"name": "answer", "arguments": {"value": 4}}',
  '{"name": "add", "argum',
];

/** The engine's session, with calls added to what it writes. */
class Prompted implements Session {
  turns = 0;
  constructor(
    readonly inner: EngineSession,
    readonly random: Random,
  ) {}

  async turn(limits: TurnLimits): Promise<Turn> {
    this.turns++;
    const turn = await this.inner.turn(limits);
    if (turn.stop !== "length" || this.random.chance(0.1)) return turn;
    const text = `<tool_call>${this.random.pick(this.random.chance(0.7) ? calls.slice(0, 5) : calls)}</tool_call>`;
    return { ...turn, stop: "stop", calls: [...turn.calls, ...hermes.read(text, []).calls] };
  }

  respond(messages: readonly ChatMessage[], _calls: readonly CallRecord[]): void {
    this.inner.respond(messages);
  }

  tokens = () => this.inner.tokens();
  promptTokens = () => this.inner.promptTokens();
  close = () => this.inner.close();
}

it("ends 10,000 turns of random tokens in named ends only, and keeps every token", async () => {
  const chat = chatOf(engine);
  const scenarios = await task.scenarios({});
  const ends = new Map<string, number>();
  let turns = 0;
  for (let group = 0; turns < TURNS; group++) {
    const scenario = scenarios[group % scenarios.length];
    if (!scenario) throw new Error("no scenarios");
    const limits: RolloutLimits = {
      maxTurns: 10,
      maxTokens: 1 + (group % 40),
      turnSeconds: 10,
      toolSeconds: 0.2,
      rolloutSeconds: group % 50 === 7 ? 0.03 : 60,
      onToolError: group % 3 === 0 ? "stop" : "observe",
    };
    const first = opening(task, scenario, limits.maxTurns);
    const prompt = Int32Array.from(chat.template.prompt(first.messages, first.tools));
    await Promise.all(
      engine.openGroup(prompt, GROUP).map(async (sequence, index) => {
        const sampling = { seed: group * GROUP + index, temperature: index === 0 ? 5 : 1 };
        const inner = new EngineSession(engine, chat, sequence, first, prompt, sampling);
        const session = new Prompted(inner, new Random("random tokens", group, index));
        const signal = new AbortController().signal;
        const outcome = await playRollout({ task, scenario, env: undefined, session, limits, signal });
        session.close();
        turns += session.turns;
        ends.set(outcome.end, (ends.get(outcome.end) ?? 0) + 1);
        const { ids, sampled, logprobs } = outcome.tokens ?? { ids: [], sampled: [], logprobs: [] };
        expect(sampled.filter(Boolean)).toHaveLength(outcome.completionTokens);
        expect(ids).toHaveLength(sampled.length);
        expect(logprobs.every((one) => Number.isFinite(one) && one <= 0)).toBe(true);
        expect(Number.isFinite(outcome.reward.reward)).toBe(true);
      }),
    );
  }
  console.log(`${turns} turns ended: ${[...ends].map(([end, n]) => `${end} ${n}`).join(", ")}`);
  const named = ["answered", "no_tool_call", "turn_limit", "token_limit", "context_limit", "deadline", "tool_failure"];
  for (const end of ends.keys()) expect([...named, "bad_call"]).toContain(end);
  expect([...ends.keys()]).toEqual(
    expect.arrayContaining(["answered", "token_limit", "context_limit", "tool_failure", "bad_call"]),
  );
  expect(engine.stats().sequences).toMatchObject({ open: 0, running: 0, queued: 0 });
});
