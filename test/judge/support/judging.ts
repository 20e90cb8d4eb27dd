/** Judges, groups and clocks for tests. */

import type { Trajectory } from "../../../src/core/rollout/trajectory.js";
import type { JudgeUsage } from "../../../src/core/run/verdicts.js";
import type { ChatMessage, Scenario } from "../../../src/core/task/task.js";
import { Cap } from "../../../src/judge/budget.js";
import { type ClientSettings, JudgeClient } from "../../../src/judge/client.js";
import { Judge } from "../../../src/judge/judge.js";
import { type Clock, realClock } from "../../../src/judge/limits.js";
import { rubricOf } from "../../../src/judge/reward/rubric.js";
import type { RulerSettings } from "../../../src/judge/ruler.js";

export const never = new AbortController().signal;

export const clientSettings: ClientSettings = {
  url: "http://127.0.0.1:9/v1",
  model: "judge",
  key: undefined,
  temperature: undefined,
  maxTokens: undefined,
  timeout: 5,
  // Half an hour of a clock that is 50 times as fast: tests of patience set their own.
  patience: 100_000,
  concurrency: 8,
  price: null,
  cap: new Cap(undefined),
  log: () => undefined,
};

/** A clock on which so many seconds pass in one. */
export function fastClock(factor: number): Clock {
  return {
    now: () => performance.now() * factor,
    sleep: (milliseconds, signal) => realClock.sleep(milliseconds / factor, signal),
  };
}

/** Time that passes only while somebody sleeps. */
export function sleepersClock(): Clock & { time: number } {
  return {
    time: 0,
    now() {
      return this.time;
    },
    async sleep(milliseconds, signal) {
      signal.throwIfAborted();
      this.time += milliseconds;
    },
  };
}

export function clientOf(change: Partial<ClientSettings>, before?: JudgeUsage, clock: Clock = fastClock(50)) {
  const said: string[] = [];
  const client = new JudgeClient({ ...clientSettings, log: (text) => said.push(text), ...change }, before, clock);
  return { client, said };
}

export function memoryCache() {
  const verdicts = new Map<string, unknown>();
  return {
    verdicts,
    get: (key: string) => verdicts.get(key),
    put: (key: string, verdict: unknown) => void verdicts.set(key, verdict),
  };
}

export function judgeOf(change: Partial<ClientSettings>, cache?: ReturnType<typeof memoryCache>, clock?: Clock) {
  const { client, said } = clientOf(change, undefined, clock);
  return { judge: new Judge(client, cache), client, said };
}

export const ruler: RulerSettings = { rubric: rubricOf(undefined), votes: 1, seed: 1, inputTokens: 32_000, tools: [] };

export interface MemberOptions {
  readonly messages?: readonly ChatMessage[];
  readonly index?: number;
  readonly scenario?: string;
  readonly reward?: number;
}

const prompt: readonly ChatMessage[] = [
  { role: "system", content: "You are an email search agent." },
  { role: "user", content: "When is the Falcon deadline?" },
];

/** A rollout whose last message tells the honest judge its score. */
export function member(quality: number | string, options: MemberOptions = {}): Trajectory {
  const { index = 0, scenario: id = "s1", reward = 0 } = options;
  const scenario: Scenario = { id, split: "train", question: "When is the Falcon deadline?" };
  const own = options.messages ?? [{ role: "assistant", content: `my answer, quality ${quality}` }];
  return {
    id: `${id}/${index}`,
    task: "fake",
    scenario,
    index,
    seed: index,
    player: { kind: "engine", model: "fake.gguf", adapter: null, temperature: 1 },
    messages: [...prompt, { role: "user", content: `scenario ${id}` }, ...own],
    calls: [],
    end: "answered",
    turns: 1,
    maxTurns: 10,
    reward: { reward, success: reward === 1, parts: {} },
    completionTokens: 9,
    promptTokens: 50,
    seconds: { total: 0, player: 0, queue: 0, tools: 0 },
  };
}

export const groupOf = (qualities: readonly (number | string)[], scenario = "s1") =>
  qualities.map((quality, index) => member(quality, { index, scenario }));
