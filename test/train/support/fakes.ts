/**
 * A policy and a learner that do the loop's work without a model: everything they make follows from what they are
 * given, so two runs can be compared bit by bit.
 */

import { createHash } from "node:crypto";
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { objectiveOf } from "../../../src/core/learn/objectives.js";
import type { StepMetrics, StepSettings } from "../../../src/core/learn/types.js";
import type { Trajectory } from "../../../src/core/rollout/trajectory.js";
import type { Adapter, ProbeReading, StepRow } from "../../../src/core/run/records.js";
import { Run } from "../../../src/core/run/run.js";
import type { Scenario } from "../../../src/core/task/task.js";
import { LastUpdates } from "../../../src/core/train/earlier.js";
import type { LoopParts, LoopSettings, PlayRequest, PlayResult, Policy, View } from "../../../src/core/train/parts.js";
import { deriveSeed, Random } from "../../../src/core/util/random.js";
import { guards } from "../../../src/guards/guard-list.js";
import { taskReward } from "../../../src/judge/reward/registry.js";
import { trainSteps } from "../../../src/trainer/loop.js";
import { ScenarioSampler } from "../../../src/trainer/sampler.js";
import { type LearnerLike, learnerUpdater } from "../../../src/trainer/updater.js";

export const scenarios: readonly Scenario[] = Array.from({ length: 12 }, (_, i) => ({
  id: `s${i}`,
  split: i < 8 ? "train" : "test",
  question: `What is ${i}?`,
}));

export interface TrajectoryOptions {
  scenario?: Scenario;
  index?: number;
  seed?: number;
  adapter?: string | null;
  reward?: number;
}

/** A small trajectory; what is not given follows from the seed. */
export function trajectoryOf(options: TrajectoryOptions = {}): Trajectory {
  const { scenario = scenarios[0] as Scenario, index = 0, seed = 1, adapter = null } = options;
  const random = new Random("trajectory", seed, adapter ?? "base");
  const n = random.integer(3, 9);
  const reward = options.reward ?? (random.chance(0.5) ? 1 : 0);
  return {
    id: `${scenario.id}/${index}`,
    task: "fake",
    scenario,
    index,
    seed,
    player: { kind: "engine", model: "fake.gguf", adapter, temperature: 1 },
    messages: [
      { role: "user", content: scenario.question },
      { role: "assistant", content: `seed ${seed}` },
    ],
    calls: [],
    end: reward === 1 ? "answered" : "no_tool_call",
    turns: 1,
    maxTurns: 10,
    reward: { reward, success: reward === 1, parts: { right: reward } },
    tokens: {
      ids: [7, ...Array.from({ length: n }, () => random.integer(0, 99))],
      sampled: [0, ...Array.from({ length: n }, () => 1)],
      logprobs: [0, ...Array.from({ length: n }, () => Math.fround(-random.float()))],
    },
    completionTokens: n,
    promptTokens: 1,
    seconds: { total: 0, player: 0, queue: 0, tools: 0 },
  };
}

/** Called with a name at every moment something happens. */
export type Tick = (name: string) => void;

export class FakePolicy implements Policy {
  readonly #tick: Tick;
  #adapter: Adapter | null = null;
  #awake = true;
  /** Adapter whose probe has not been looked at. */
  #unseen: Adapter | null = null;
  /** Everything it was asked to play, as `played run step adapter id`. */
  readonly played: string[] = [];
  /** Waited for before every rollout. As with the real one, whatever else happens, rollouts come in one by one. */
  pace = (): Promise<unknown> => new Promise((resolve) => setImmediate(resolve));
  /** What it says of the probe of an adapter that it is to play. */
  reading = (_adapter: Adapter): ProbeReading | null => null;
  /** The reward of every rollout; "mixed": of a group's first two 1 and 0, so that it has a signal, of the others by chance. */
  reward: number | "mixed" | "chance" = "mixed";
  /** Called before it wakes. */
  waking = (): void => undefined;

  constructor(tick: Tick = () => undefined) {
    this.#tick = tick;
  }

  async use(adapter: Adapter | null): Promise<void> {
    if (adapter && !existsSync(adapter.path)) throw new Error(`there is no adapter ${adapter.path}`);
    if (!this.#awake) throw new Error("the policy rests");
    if (adapter?.path !== this.#adapter?.path) this.#unseen = adapter;
    this.#adapter = adapter;
    this.#tick("use");
  }

  async probe(): Promise<ProbeReading | null> {
    if (!this.#awake) throw new Error("the policy rests");
    const reading = this.#unseen ? this.reading(this.#unseen) : null;
    this.#unseen = null;
    this.#tick("probe");
    return reading;
  }

  async sleep(): Promise<void> {
    this.#awake = false;
    this.#tick("sleep");
  }

  async wake(): Promise<void> {
    if (this.#awake) return;
    this.waking();
    this.#awake = true;
    this.#tick("wake");
  }

  async play({
    seedName,
    step,
    scenarios,
    groupSize,
    have,
    signal,
    onTrajectory,
    onGroup,
  }: PlayRequest): Promise<PlayResult> {
    if (!this.#awake) throw new Error("the policy rests");
    const adapter = this.#adapter?.sha256 ?? null;
    const groups: Trajectory[][] = [];
    for (const scenario of scenarios) {
      const members: Trajectory[] = [];
      groups.push(members);
      for (let index = 0; index < groupSize; index++) {
        const before = have.find((one) => one.scenario.id === scenario.id && one.index === index);
        if (before) {
          members.push(before);
          continue;
        }
        await this.pace();
        if (signal.aborted) return { groups, failures: [], interrupted: true };
        const seed = deriveSeed(seedName, step, scenario.id, index);
        const reward = this.#rewardOf(index);
        const trajectory = trajectoryOf({
          scenario,
          index,
          seed,
          adapter,
          ...(reward === undefined ? {} : { reward }),
        });
        this.played.push(`played ${seedName} ${step} ${adapter} ${trajectory.id}`);
        this.#tick(this.played.at(-1) as string);
        members.push(trajectory);
        onTrajectory(trajectory);
      }
      onGroup?.(members);
    }
    return { groups, failures: [], interrupted: false };
  }

  #rewardOf(index: number): number | undefined {
    if (this.reward === "mixed") return index < 2 ? 1 - index : undefined;
    return this.reward === "chance" ? undefined : this.reward;
  }
}

function writeFlushed(file: string, text: string, tick: Tick): void {
  const handle = openSync(file, "w");
  writeSync(handle, text.slice(0, text.length / 2));
  tick("learner half a file");
  writeSync(handle, text.slice(text.length / 2));
  fsyncSync(handle);
  closeSync(handle);
}

export function metricsOf(overrides: Partial<StepMetrics> = {}): StepMetrics {
  return {
    applied: true,
    skipped: null,
    loss: 0.5,
    gradNorm: 1,
    mismatch: { mean: 0.001, p99: 0.002, max: 0.003 },
    mismatchKl: { k1: 0, k3: 0 },
    drift: null,
    klBase: null,
    updates: 1,
    clip: { below: 0, above: 0 },
    probeKl: null,
    overflows: 0,
    importance: { truncated: 0, masked: 0, ess: 1 },
    played: null,
    entropy: 1,
    groups: 2,
    trajectories: 4,
    sequences: 4,
    tokens: { total: 20, sampled: 16, computed: 20, padding: 0 },
    microBatches: 1,
    learningRate: 0.1,
    device: "cpu",
    precision: "f32",
    seconds: { update: 0, save: 0, checks: 0, total: 0 },
    memory: { peak: 2, loaded: 1 },
    ...overrides,
  };
}

/** Its state is a hash of all it was ever given, kept in optimizer.pt. */
export class FakeLearner implements LearnerLike {
  #state: string;
  readonly #tick: Tick;
  readonly #answer: (settings: StepSettings) => Partial<StepMetrics>;
  closed = false;

  constructor(
    from: string | undefined,
    tick: Tick = () => undefined,
    answer: (settings: StepSettings) => Partial<StepMetrics> = () => ({}),
  ) {
    this.#state = from === undefined ? "fresh" : readFileSync(join(from, "optimizer.pt"), "utf8");
    this.#tick = tick;
    this.#answer = answer;
  }

  async step(settings: StepSettings): Promise<StepMetrics> {
    this.#tick("learner begins");
    const metrics = metricsOf({ learningRate: settings.learningRate, ...this.#answer(settings) });
    if (!metrics.applied) return metrics;
    const batch = readFileSync(settings.batch);
    this.#state = createHash("sha256")
      .update(this.#state)
      .update(batch)
      .update(`${settings.learningRate}`)
      .digest("hex");
    mkdirSync(join(settings.into, "adapter"), { recursive: true });
    writeFlushed(join(settings.into, "adapter.gguf"), `GGUF ${this.#state}`, this.#tick);
    writeFlushed(join(settings.into, "adapter", "adapter_model.safetensors"), `PEFT ${this.#state}`, this.#tick);
    writeFlushed(join(settings.into, "optimizer.pt"), this.#state, this.#tick);
    this.#tick("learner ends");
    return { ...metrics, loss: Number.parseInt(this.#state.slice(0, 6), 16) };
  }

  async close(): Promise<void> {
    this.closed = true;
    this.#tick("learner closed");
  }
}

export const silent: View = {
  phase: () => undefined,
  rollout: () => undefined,
  rewarded: () => undefined,
  progress: () => undefined,
  step: () => undefined,
  validation: () => undefined,
  log: () => undefined,
};

export const shape = { model: "f00d", lora: { rank: 4, alpha: 8, targets: ["q_proj", "v_proj"] } };

export const settings: LoopSettings = {
  seed: 3,
  steps: 3,
  staleness: 0,
  apart: false,
  groupSize: 3,
  temperature: 1,
  schedule: { learningRate: 0.1, finalLearningRate: 0.01, warmup: 1 },
  advantages: { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 },
  kl: 0,
  refill: 0,
  maskTruncated: false,
  validateEvery: 2,
  validateN: 2,
  keep: 1,
  maxMismatch: undefined,
  expectedMismatch: 0.02,
  farMismatch: 0.2,
  numerics: { engine: "fakes", hfWeights: false },
  adapterType: "f32",
  closer: "Take other weights",
};

export const openFake = (folder: string, fork?: string): Promise<Run> =>
  Run.open({
    folder,
    record: { options: { groupSize: 3, task: "mine.ts" }, contents: {} },
    shape,
    fork,
    agree: () => undefined,
  });

export const stepSettings = {
  objective: objectiveOf("dapo"),
  importance: { mode: "token-truncate", low: 0, high: 2 },
  klCoefficient: 0,
  maxGradNorm: 1,
  microBatchTokens: 1024,
  gradientCheckpointing: false,
} as const;

export interface FakeParts {
  tick?: Tick;
  learner?: (from: string | undefined) => LearnerLike;
  change?: Partial<LoopParts>;
  settings?: Partial<LoopSettings>;
}

/** The loop's parts around an open run, in memory of what was played. */
export function partsOf(run: Run, { tick, learner, change, settings: changed }: FakeParts = {}) {
  const policy = new FakePolicy(tick);
  const updater = learnerUpdater({
    lifetime: "run",
    step: stepSettings,
    start: async (from) => (learner ? learner(from) : new FakeLearner(from, tick)),
    log: () => undefined,
  });
  const resolved = { ...settings, ...changed };
  const parts: LoopParts & { policy: FakePolicy } = {
    run,
    settings: resolved,
    scenarios: new ScenarioSampler(scenarios, { groupsPerStep: 2, seed: resolved.seed }),
    updater,
    lastUpdates: new LastUpdates(),
    guards,
    rewardGroup: taskReward,
    view: silent,
    signal: new AbortController().signal,
    ...change,
    policy,
  };
  return parts;
}

/** A short run from wherever it stands to its end. Returns what was played. */
export async function goThrough(folder: string, tick?: Tick, staleness = 0): Promise<readonly string[]> {
  const run = await openFake(folder);
  const steps = 2 + staleness;
  const short = { seed: 6, steps, staleness, apart: staleness > 0, groupSize: 2, validateEvery: 1, validateN: 1 };
  const parts = partsOf(run, { ...(tick ? { tick } : {}), settings: short });
  // Of each adapter its own, so that a step without its reading, or with another's, is another state.
  parts.policy.reading = ({ sha256 }) => ({
    after: 0,
    before: Number.parseInt(sha256.slice(0, 6), 16),
    n: 1,
    moved: null,
  });
  await train(parts);
  await parts.updater.close();
  run.close();
  return parts.policy.played;
}

/** Makes all steps that are left; they are given as the loop gave them. */
export async function train(parts: LoopParts): Promise<StepRow[]> {
  const rows: StepRow[] = [];
  for await (const row of trainSteps(parts)) rows.push(row);
  return rows;
}
