/** Runs as training leaves them, made without a model: for the page and the commands that read runs. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { groupAdvantages } from "../../../src/core/learn/advantages.js";
import type { Trajectory } from "../../../src/core/rollout/trajectory.js";
import { evaluate } from "../../../src/core/run/evaluation.js";
import type { StepTiming } from "../../../src/core/run/records.js";
import { RunStore } from "../../../src/core/run/store.js";
import type { CallRecord, ChatMessage, Scenario } from "../../../src/core/task/task.js";
import { type CreditedGroup, creditsOf } from "../../../src/core/train/credit.js";
import { stepMetricsRow } from "../../../src/core/train/metrics.js";
import { Random } from "../../../src/core/util/random.js";
import { metricsOf } from "../../train/support/fakes.js";

export interface RunOptions {
  steps: number;
  groups?: number;
  group?: number;
  /** Words of each tool result: what makes a run large. */
  words?: number;
  /** Tokens of each rollout. */
  tokens?: number;
  model?: string;
  options?: Record<string, unknown>;
  /** The judge answered nothing in this step. */
  lost?: number;
  /** The loss of this step was not a finite number. */
  broken?: number;
  /** Said in a tool result of step 1. */
  says?: string;
  /** What ids and kinds of scenarios, and parts of rewards, begin with. */
  named?: string;
}

const numbers = { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 } as const;
const KINDS = ["who", "when", "where"];

function played(scenario: Scenario, index: number, step: number, asked: RunOptions): Trajectory {
  const random = new Random("view", step, scenario.id, index);
  const success = random.float() < 0.2 + (0.6 * step) / Math.max(1, asked.steps);
  const malformed = !success && random.chance(0.4);
  const text = Array.from({ length: asked.words ?? 12 }, () => random.pick(["invoice", "meeting", "Orion", "budget"]));
  const said = step === 1 && index === 0 && asked.says !== undefined ? asked.says : text.join(" ");
  const call: CallRecord = {
    turn: 1,
    name: malformed ? "" : "search",
    arguments: malformed ? {} : { words: ["Orion", String(index)] },
    outcome: malformed ? "malformed" : "ok",
    result: malformed ? { error: "that is no call" } : said,
  };
  const messages: ChatMessage[] = [
    { role: "system", content: "You search mail." },
    { role: "user", content: scenario.question },
    malformed
      ? { role: "assistant", content: "<tool_call>{" }
      : { role: "assistant", content: "", tool_calls: [{ name: "search", arguments: call.arguments }] },
    { role: "tool", name: call.name, content: malformed ? JSON.stringify(call.result) : said },
    { role: "assistant", content: success ? "It is Karen." : "I do not know." },
  ];
  const n = asked.tokens ?? 8;
  const reward = success ? random.integer(60, 100) / 100 : random.integer(0, 20) / 100;
  return {
    id: `${scenario.id}/${index}`,
    task: "mail",
    scenario,
    index,
    seed: random.integer(1, 1e6),
    player: { kind: "engine", model: asked.model ?? "gone.gguf", adapter: null, temperature: 1 },
    messages,
    calls: [call],
    end: success ? "answered" : malformed ? "turn_limit" : "no_tool_call",
    turns: 2,
    maxTurns: 10,
    reward: { reward, success, parts: { [`${asked.named ?? ""}right`]: success ? 1 : 0 } },
    tokens: {
      ids: Array.from({ length: n }, () => random.integer(0, 4000)),
      sampled: Array.from({ length: n }, (_, i) => (i < n / 2 ? 0 : 1)),
      logprobs: Array.from({ length: n }, (_, i) => (i < n / 2 ? 0 : Math.fround(-2 * random.float()))),
    },
    completionTokens: n / 2,
    promptTokens: n / 2,
    seconds: { total: random.integer(10, 90) / 10, player: 1, queue: 0, tools: 0.1 },
  };
}

const scenarioOf = (split: "train" | "test", number: number, { named = "" }: RunOptions): Scenario => ({
  id: `${named}${split}-${number}`,
  split,
  question: `Who wrote mail ${number}?`,
  kind: `${named}${KINDS[number % KINDS.length]}`,
});

function credited(members: readonly Trajectory[], lost: boolean): CreditedGroup {
  const rewards = members.map(({ reward }) => reward.reward);
  const { advantages, hasSpread } = groupAdvantages(rewards, numbers);
  return {
    members: members.map((trajectory, i) => ({
      trajectory,
      reward: rewards[i] as number,
      advantage: lost ? 0 : (advantages[i] as number),
      masked: false,
      ...(lost ? {} : { explanation: `Rollout ${i} is worth ${rewards[i]}.` }),
    })),
    brokenOff: [],
    tooFew: false,
    rewarded: !lost,
    noVerdict: lost ? "timeout" : null,
    agreement: null,
    hasSignal: hasSpread && !lost,
    allMasked: false,
  };
}

const timing = (step: number): StepTiming => ({
  seconds: { rollouts: 8 + (step % 3), update: 4, total: 13 + (step % 3) },
  checks: 0.01,
  reused: 0,
  memory: { peak: 2e9, loaded: 1e9 },
  judge: null,
  numerics: "{}",
});

/** Plays and commits one more step of an open store. Returns its rollouts by group. */
export function addStep(store: RunStore, step: number, asked: RunOptions): readonly CreditedGroup[] {
  const groups = Array.from({ length: asked.groups ?? 3 }, (_, g) => {
    const scenario = scenarioOf("train", (step * (asked.groups ?? 3) + g) % 40, asked);
    const members = Array.from({ length: asked.group ?? 4 }, (_, index) => played(scenario, index, step, asked));
    for (const trajectory of members) store.saveRollout("train", step, trajectory);
    return credited(members, step === asked.lost);
  });
  const learnt = groups.some(({ hasSignal }) => hasSignal);
  const skipped = step === asked.broken ? "loss" : null;
  const entropy = 1 - step / (2 * asked.steps);
  const update = learnt ? metricsOf({ skipped, loss: 0.3 / step, gradNorm: 0.5, entropy }) : null;
  store.commitStep(
    { step, checkpoint: null, adapter: null, metrics: stepMetricsRow(groups, [], 1e-4, update), timing: timing(step) },
    creditsOf(groups),
  );
  return groups;
}

export function addValidation(store: RunStore, step: number, asked: RunOptions): void {
  const rollouts = Array.from({ length: 6 }, (_, i) => played(scenarioOf("test", i, asked), 0, step, asked));
  for (const trajectory of rollouts) store.saveRollout("validation", step, trajectory);
  store.commitValidation({ step, checkpoint: null, result: evaluate(rollouts, 0), seconds: 2 });
}

/** A run in `<home>/mail/models/<name>`. Returns its folder. */
export function makeRun(home: string, name: string, asked: RunOptions): string {
  const folder = join(home, "mail", "models", name);
  mkdirSync(folder, { recursive: true });
  const store = RunStore.open(join(folder, "run.sqlite"));
  const options = {
    steps: asked.steps,
    groupSize: asked.group ?? 4,
    learningRate: 1e-4,
    loss: "dapo",
    ...asked.options,
  };
  store.begin(
    { name, created: "2031-01-01T00:00:00Z", options, contents: { model: "ab" } },
    { checkpoint: null, adapter: null },
  );
  if (asked.steps > 0) addValidation(store, 0, asked);
  for (let step = 1; step <= asked.steps; step++) addStep(store, step, asked);
  if (asked.steps > 0) addValidation(store, asked.steps, asked);
  store.close();
  return folder;
}
