/** What a run keeps: every record of run.sqlite and metrics.jsonl, with its n, named as other tools name it. */
import type { JudgeUsage } from "../judge/index.js";

export type RolloutPhase = "train" | "validation";

/** What makes a run this run. */
export interface RunRecord {
  readonly name: string;
  /** ISO time. */
  readonly created: string;
  /** Options by name. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Fingerprints by name. */
  readonly contents: Readonly<Record<string, string>>;
}

/** An engine or a learner as it really computed. */
export interface Device {
  readonly part: "engine" | "learner";
  /** When the run was first computed by it: ISO time. */
  readonly seen: string;
  /** Device, driver, versions, types of numbers. */
  readonly [fact: string]: unknown;
}

export interface Adapter {
  /** A GGUF file; one path always names the same content. */
  readonly path: string;
  readonly sha256: string;
}

/** Where a run stands after a step. */
export interface StepRow {
  readonly step: number;
  /** Checkpoint in force; null is the base model. */
  readonly checkpoint: number | null;
  /** SHA-256 of its adapter. */
  readonly adapter: string | null;
  /** null for step 0, the start. */
  readonly metrics: StepMetricsRow | null;
  readonly timing: StepTiming | null;
}

/**
 * Why a step changed nothing. "no_spread": no group's rollouts differed in reward. "unrewarded": no group had one.
 * "broken_off": no group had two rollouts to compare, or a reward for those it had; most of them had not two. "truncated":
 * what differed in reward had been ended by a limit, and --mask-truncated leaves that out.
 */
export type SkipReason = "truncated" | "loss" | "gradient" | "no_spread" | "unrewarded" | "broken_off";

/** Mean distances of the engine's log-probabilities, nats a token. */
export interface ProbeReading {
  /** From the policy that the checkpoint holds. */
  readonly after: number;
  /** From the policy before its update. */
  readonly before: number;
  /** Tokens that the means are over. */
  readonly n: number;
}

/** What follows from seeds and data alone. */
export interface StepMetricsRow {
  /** Rollouts played to an end: what `reward`, `success`, `turns` and `completion_tokens` are means of. */
  rollouts: number;
  /** The task's own reward, whatever trained. */
  reward: number;
  success: number;
  turns: number;
  completion_tokens: number;
  ends: Record<string, number>;
  tool_errors: Record<string, number>;
  /** Rollouts that broke down by no fault of the model. */
  failures: number;
  /** Rollouts whose end was not the model's doing (a tool's failure, a deadline that others used up): not trained. */
  rollouts_broken_off: number;
  /** The same by why. */
  broken_off: Record<string, number>;
  groups: number;
  /** Groups whose rollouts differ in what training pushes up. */
  groups_trainable: number;
  /** Groups whose rewards are equal, or nearer to each other than the spread floor of judged rewards. */
  groups_flat: number;
  /** Groups whose rewards differ, but all of whose rollouts that could teach are masked (--mask-truncated). */
  groups_masked: number;
  /** Of `groups`, those that were played in the place of flat or masked ones (--refill). */
  groups_refilled: number;
  /** Rollouts that a limit ended and that were not learnt from (--mask-truncated); they count in their group's mean. */
  rollouts_masked: number;
  /** Groups that could not be rewarded, and why. */
  groups_unrewarded: number;
  groups_lost: Record<string, number>;
  /** Groups left with fewer than two rollouts because the others were broken off. */
  groups_broken_off: number;
  /** What trained: mean over the rollouts of rewarded groups, and how many those are. null when there are none. */
  training_reward: number | null;
  training_n: number;
  /**
   * Mean of each part of the reward over the rollouts that have it, and how many those are; a judge's part of a composed
   * reward too. Missing in runs of before it was noted.
   */
  parts?: Record<string, { mean: number; n: number }>;
  /** Mean share of pairs of rollouts that a judge's votes order alike; null with a single vote. */
  judge_agreement: number | null;
  learning_rate: number;
  /** null when the step changed the adapter. */
  skipped: SkipReason | null;
  /** Tokens of the batch, and those of them the policy sampled. 0 without an update. */
  tokens: number;
  sampled_tokens: number;
  // null without an update, or where not finite.
  loss: number | null;
  /** Updates of the adapter: epochs × mini-batches. 0 when the step changed nothing. */
  updates: number;
  /** Estimate (k3) of the KL divergence of the rollout policy (the engine's) from the learner's, nats a token. */
  mismatch_kl: number | null;
  /** Estimate (k3) of the KL divergence to the base model before the updates, where it is part of the loss (--kl). */
  kl_base: number | null;
  /** Distance of log-probabilities, rollout to learner, nats. */
  gap: { mean: number; p99: number; max: number } | null;
  /** What the engine, with the new adapter, made of the checkpoint's probe (probe.ts); null without an update. */
  probe: ProbeReading | null;
  grad_norm: number | null;
  entropy: number | null;
  /** Share of sampled tokens on which a bound of the policy ratio acted, over all updates. */
  clip_fraction: number | null;
  /** Shares of sampled tokens whose importance weight was bounded, and which it left out (--importance-sampling). */
  importance_truncated: number | null;
  importance_masked: number | null;
  /** Passes of the update that were repeated because f16 overflowed. */
  overflows: number;
}

/** What depends on the machine and the day. */
export interface StepTiming {
  /** By phase, and `total`, which has what lies between them too. */
  seconds: Record<string, number>;
  /** Rollouts taken over from a broken attempt of this step. */
  reused: number;
  /** The learner's bytes; null without an update. */
  memory: { peak: number; loaded: number } | null;
  /** What the judge was asked in this step and the validation before it; null without a judge. */
  judge: JudgeCount | null;
  /** Devices and precisions of engine and learner, as they computed (numerics.ts): rounding is alike only between steps of the same ones. */
  numerics: string;
}

/** One line of metrics.jsonl. */
export interface MetricsLine extends StepMetricsRow, StepTiming {
  step: number;
  checkpoint: number | null;
}

/** What the judge has been asked so far, in this call of the program. */
export interface JudgeCount extends JudgeUsage {
  /** Verdicts that were remembered. */
  readonly cached: number;
}

/** What the update was told about one rollout. */
export interface Lesson {
  /** Id of the trajectory's scenario, and its place in the group. */
  readonly scenario: string;
  readonly member: number;
  readonly reward: number;
  readonly advantage: number;
  /** A judge's. */
  readonly explanation: string | null;
}

/** Of the model that the run starts from. */
export interface ScenarioDifficulty {
  readonly scenario: string;
  /** Rollouts that were played to an end and graded. */
  readonly n: number;
  readonly successes: number;
}

export interface ValidationRow {
  readonly step: number;
  readonly checkpoint: number | null;
  readonly result: Evaluation;
  readonly seconds: number;
}

export interface Evaluation {
  /** Rollouts played to an end: what every share and mean below is over. */
  n: number;
  successes: number;
  success: number;
  /** 95 % interval of `success`. */
  low: number;
  high: number;
  /** Means over all rollouts. */
  reward: number;
  turns: number;
  completion_tokens: number;
  /** Mean of each part of the reward over the rollouts that have it, and how many those are. */
  parts: Record<string, { mean: number; n: number }>;
  /** Success on each kind of scenario, where scenarios have one. */
  kinds: Kinds;
  /** How rollouts ended, counted. */
  ends: Record<string, number>;
  /** Calls that did not run, by why. */
  tool_errors: Record<string, number>;
  /** Rollouts that broke down by no fault of the model; not in `n`. */
  failures: number;
  /** Rollouts whose answer a judge was asked about in vain, by why; not in `n`. */
  unjudged: Record<string, number>;
}

/** Rollouts and successes by kind of scenario, in order of the name. */
export type Kinds = Record<string, { n: number; successes: number }>;

/** @throws RangeError for step 0, which has no metrics */
export function metricsLine({ step, checkpoint, metrics, timing }: StepRow): MetricsLine {
  if (!metrics || !timing) throw new RangeError(`step ${step} has no metrics`);
  return { step, checkpoint, ...metrics, ...timing };
}

/**
 * Distances of engine and learner in a run's updates, oldest first.
 * @param numerics of the steps that count; all when undefined
 */
export function gapsOf(
  steps: readonly Pick<StepRow, "metrics" | "timing">[],
  numerics?: string,
): NonNullable<StepMetricsRow["gap"]>[] {
  return steps
    .filter(({ timing }) => numerics === undefined || timing?.numerics === numerics)
    .flatMap(({ metrics }) => metrics?.gap ?? []);
}
