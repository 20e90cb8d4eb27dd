/** The records of a run: every field of run.sqlite and metrics.jsonl, each mean with its n, named as in other tools. */
import type { DrawStatistics } from "../engine/sequence.js";
import type { JudgeUsage } from "./verdicts.js";

export type RolloutPhase = "train" | "validation";

/** The identity of a run. */
export interface RunRecord {
  readonly name: string;
  /** ISO time. */
  readonly created: string;
  /** Options by name. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Fingerprints by name. */
  readonly contents: Readonly<Record<string, string>>;
}

/** An engine or a learner as it actually computed. */
export interface Device {
  readonly part: "engine" | "learner";
  /** Time of its first use in the run: ISO time. */
  readonly seen: string;
  /** Device, driver, versions, number types. */
  readonly [fact: string]: unknown;
}

export interface Adapter {
  /** A GGUF file; a path always names the same content. */
  readonly path: string;
  readonly sha256: string;
}

/** State of a run after a step. */
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
 * Why a step changed nothing. "no_spread": no group's rollouts differed in reward. "unrewarded": no group had a reward.
 * "broken_off": no group had two comparable rollouts with a reward; most groups had fewer than two. "truncated": the
 * rollouts that differed in reward had been ended by a limit, and --mask-truncated leaves those out.
 */
export type SkipReason = "truncated" | "loss" | "gradient" | "no_spread" | "unrewarded" | "broken_off";

/** Mean distances of the engine's log-probabilities, nats per token. */
export interface ProbeReading {
  /** From the policy in the checkpoint. */
  readonly after: number;
  /** From the policy before the update. */
  readonly before: number;
  /** Number of tokens of the means. */
  readonly n: number;
  /**
   * From its own with what it played before the adapter was loaded, at the probe's start, the least of its replicas: 0 is an
   * engine that loaded nothing.
   * null where the learner's do not differ measurably either, or nothing was measured before.
   */
  readonly moved: number | null;
}

/** Which of two policies played: 1 is the learner's, 0 the other; its standard error, and the number of tokens. */
export interface PolicySlope {
  slope: number;
  error: number;
  tokens: number;
}

/** What a step was like; its times are apart from it. */
export interface StepMetricsRow {
  /** Rollouts played to an end: the n of `reward`, `success`, `turns` and `completion_tokens`. */
  rollouts: number;
  /** The task's own reward, whichever reward trained. */
  reward: number;
  success: number;
  /** 95 % interval of `success`, with rollouts of one scenario as a cluster (interval.ts). */
  success_low: number;
  success_high: number;
  turns: number;
  completion_tokens: number;
  ends: Record<string, number>;
  tool_errors: Record<string, number>;
  /** Counts of rollouts that the task's own code played, summed: completions, sequences, history_rewritten, refused, off_form. */
  agent: Record<string, number>;
  /** Rollouts that failed through no fault of the model. */
  failures: number;
  /** Rollouts ended by a tool's failure, or by a deadline that tools or waiting used up: not trained. */
  rollouts_broken_off: number;
  /** The same by cause. */
  broken_off: Record<string, number>;
  groups: number;
  /** Groups whose rollouts differ in the training reward. */
  groups_trainable: number;
  /** Groups whose rewards are equal, or nearer to each other than the spread floor of judged rewards. */
  groups_flat: number;
  /** Groups whose rewards differ, but whose informative rollouts are all masked (--mask-truncated). */
  groups_masked: number;
  /** Of `groups`, those played in place of flat or masked ones (--refill). */
  groups_refilled: number;
  /** Scenarios of the train split that sat out (--rest). */
  scenarios_resting: number;
  /** Rollouts that a limit ended and that were not trained on (--mask-truncated); they count in their group's mean. */
  rollouts_masked: number;
  /** Groups without a usable reward, and their causes. */
  groups_unrewarded: number;
  groups_no_verdict: Record<string, number>;
  /** Groups with fewer than two rollouts left after broken-off ones were removed. */
  groups_broken_off: number;
  /** Mean of the training reward over the rollouts of rewarded groups, and their number. null when there are none. */
  training_reward: number | null;
  training_n: number;
  /**
   * Mean of each part of the reward over the rollouts that have it, and their number; includes a judge's part of a
   * composed reward.
   */
  parts: Record<string, { mean: number; n: number }>;
  /**
   * Mean over the groups with a usable reward of the standard deviation (n − 1) of the training reward within the group, and
   * the number of groups. null when there are none.
   */
  reward_spread: number | null;
  spread_n: number;
  /**
   * How the draws of all rollouts agree with their probabilities (guards/draws.ts): their number, the sum of surprise less
   * entropy in nats, and its variance. null where the engine measures none.
   */
  draws: DrawStatistics | null;
  /** Mean share of pairs of rollouts that a judge's votes order alike; null with a single vote. */
  judge_agreement: number | null;
  learning_rate: number;
  /** The step after which the policy stood that played this one (--staleness): the step before, or an earlier one. */
  version: number;
  /** Policies between that one and the one that the step trained: 0 where they are the same. */
  staleness: number;
  /**
   * Where they are not, how far the learner's policy before the update is from the one that played, over `n` tokens of the
   * batch: the mean distance of their log-probabilities, and an estimate (k3) of the KL divergence, nats a token.
   */
  drift: { mean: number; kl: number; n: number } | null;
  /** null when the step changed the adapter. */
  skipped: SkipReason | null;
  /** Tokens of the batch, and those of them that the policy sampled. 0 without an update. */
  tokens: number;
  sampled_tokens: number;
  // null without an update, or where not finite.
  loss: number | null;
  /** Updates of the adapter: iterations × mini-batches. 0 when the step changed nothing. */
  updates: number;
  /**
   * Estimate (k3) of the KL divergence of the rollout policy (the engine's) from the learner's with the weights that played, nats
   * per token: over the tokens of the batch, as `mismatch` is; over a part of them where `staleness` is not 0.
   */
  mismatch_kl: number | null;
  /** Estimate (k3) of the KL divergence to the base model before the updates, where it is part of the loss (--kl). */
  kl_base: number | null;
  /** Distance of log-probabilities between rollout and learner over the tokens of the batch, nats. */
  mismatch: { mean: number; p99: number; max: number } | null;
  /**
   * Mean KL divergences over the probe's `n` tokens, nats per token: of the policy before the update from the base model, and
   * from the policy after the update; null without an update.
   */
  probe_kl: { base: number | null; update: number | null; n: number } | null;
  /**
   * Which policy played the step (guards/policy-slope.ts): slope 1 is the learner's, 0 the one of the checkpoint `earlier` (null: the
   * base model), over so many tokens. null where no earlier policy could be told apart. `previous`: the same from the policy of
   * one update before.
   */
  played: (PolicySlope & { earlier: number | null; previous: PolicySlope | null }) | null;
  /** The engine's score of the checkpoint's probe with the new adapter (probe.ts); null without an update. */
  probe: ProbeReading | null;
  grad_norm: number | null;
  /**
   * Of the policy that played, nats per token: the mean of −log p over the sampled tokens of all rollouts, an unbiased estimate.
   * null without tokens.
   */
  entropy: number | null;
  /** The entropy that the learner computes from the whole distribution, over the tokens of the batch; before the update. */
  entropy_trained: number | null;
  /** Share of sampled tokens on which a bound of the policy ratio acted, over all updates; and of that by the bound. */
  clip_fraction: number | null;
  clip_below: number | null;
  clip_above: number | null;
  /** Shares of sampled tokens whose importance weight was bounded, or set to 0 (--importance-sampling). */
  importance_truncated: number | null;
  importance_masked: number | null;
  /** Effective sample size of the tokens' importance weights before bounds, as a share of the tokens; 1 is the best. */
  importance_ess: number | null;
  /** Passes of the update that were repeated because f16 overflowed. */
  overflows: number;
}

/** Whether rewards had a part in the step's update: where none differ, `--kl` alone may make one. */
export const taught = ({ skipped, groups_trainable }: StepMetricsRow): boolean =>
  skipped === null && groups_trainable > 0;

/** Values that depend on the machine and its load. */
export interface StepTiming {
  /** By phase, and `total`, which includes the time between phases. */
  seconds: Record<string, number>;
  /** Seconds of these in which what is learnt was checked by a second path (docs/trust.md). */
  checks: number;
  /** Rollouts reused from an interrupted attempt of this step. */
  reused: number;
  /** The learner's memory in bytes; null without an update. */
  memory: { peak: number; loaded: number } | null;
  /** Requests to the judge in this step and the validation before it; null without a judge. */
  judge: JudgeCount | null;
  /**
   * Devices and precisions of engine and learner (numerics.ts): rounding is comparable only between steps with the same ones.
   */
  numerics: string;
}

/** One line of metrics.jsonl. */
export interface MetricsLine extends StepMetricsRow, StepTiming {
  step: number;
  checkpoint: number | null;
}

/** Use of the judge so far, in this process. */
export interface JudgeCount extends JudgeUsage {
  /** Verdicts taken from the cache. */
  readonly cached: number;
}

/** Reward and advantage of one rollout in an update. */
export interface RolloutCredit {
  /** Id of the trajectory's scenario, and its position in the group. */
  readonly scenario: string;
  readonly member: number;
  /** null where all rollouts of the group are identical, which none was needed for. */
  readonly reward: number | null;
  readonly advantage: number;
  /** A judge's explanation. */
  readonly explanation: string | null;
}

/** What came of a group in a committed step. */
export interface GroupOutcome {
  readonly step: number;
  readonly scenario: string;
  /** A rollout of it had an advantage. */
  readonly hasSignal: boolean;
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
  /** Rollouts played to an end: the n of every share and mean below. */
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
  /** Success by kind of scenario, where scenarios have kinds. */
  kinds: Kinds;
  /** How rollouts ended, counted. */
  ends: Record<string, number>;
  /** Calls that did not run, by cause. */
  tool_errors: Record<string, number>;
  /** Rollouts that failed through no fault of the model; not in `n`. */
  failures: number;
  /** Rollouts whose answer the judge gave no usable verdict on, by cause; not in `n`. */
  unjudged: Record<string, number>;
}

/** Rollouts and successes by kind of scenario, sorted by name. */
export type Kinds = Record<string, { n: number; successes: number }>;

/** @throws RangeError for step 0, which has no metrics */
export function metricsLine({ step, checkpoint, metrics, timing }: StepRow): MetricsLine {
  if (!metrics || !timing) throw new RangeError(`step ${step} has no metrics`);
  return { step, checkpoint, ...metrics, ...timing };
}

/**
 * Distances of engine and learner in a run's updates, oldest first.
 * @param numerics only steps with these count; undefined: all
 */
export function mismatchesOf(
  steps: readonly Pick<StepRow, "metrics" | "timing">[],
  numerics?: string,
): NonNullable<StepMetricsRow["mismatch"]>[] {
  return steps
    .filter(({ timing }) => numerics === undefined || timing?.numerics === numerics)
    .flatMap(({ metrics }) => metrics?.mismatch ?? []);
}
