/** What the store and metrics.jsonl say of a step: figures with their n, named as other tools name them. */
import type { StepMetrics } from "../learn/index.js";
import { count, type Evaluation, mean } from "../report/evaluation.js";
import { brokenOff, type RolloutFailure, type Trajectory } from "../rollout/index.js";
import type { Taught } from "../train/lessons.js";
import type { JudgeCount } from "../train/parts.js";
import type { ProbeReading } from "../train/probe.js";
import type { StepRow } from "./store.js";

export type ValidationResult = Evaluation;

/**
 * Why a step changed nothing. "no_spread": no group's rollouts differed in reward. "unrewarded": no group had one.
 * "broken_off": no group had two rollouts to compare, or a reward for those it had; most of them had not two.
 */
export type SkipReason = "loss" | "gradient" | "no_spread" | "unrewarded" | "broken_off";

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
  /** Groups that could not be rewarded, and why. */
  groups_unrewarded: number;
  groups_lost: Record<string, number>;
  /** Groups left with fewer than two rollouts because the others were broken off. */
  groups_broken_off: number;
  /** What trained: mean over the rollouts of rewarded groups, and how many those are. null when there are none. */
  training_reward: number | null;
  training_n: number;
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
  /** Estimate (k3) of the KL divergence of the rollout policy from the learner's, nats a token. */
  kl: number | null;
  /** The same to the base model, where it is part of the loss. */
  kl_base: number | null;
  /** Distance of log-probabilities, rollout to learner, nats. */
  gap: { mean: number; p99: number; max: number } | null;
  /** What the engine, with the new adapter, made of the checkpoint's probe (probe.ts); null without an update. */
  probe: ProbeReading | null;
  grad_norm: number | null;
  entropy: number | null;
  clip_fraction: number | null;
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
}

/** One line of metrics.jsonl. */
export interface MetricsLine extends StepMetricsRow, StepTiming {
  step: number;
  checkpoint: number | null;
}

/** @throws RangeError for step 0, which has no metrics */
export function metricsLine({ step, checkpoint, metrics, timing }: StepRow): MetricsLine {
  if (!metrics || !timing) throw new RangeError(`step ${step} has no metrics`);
  return { step, checkpoint, ...metrics, ...timing };
}

export function stepMetricsRow(
  groups: readonly Taught[],
  failures: readonly RolloutFailure[],
  learningRate: number,
  update: StepMetrics | null,
): StepMetricsRow {
  const trajectories: Trajectory[] = groups.flatMap(({ members, brokenOff }) => [
    ...members.map(({ trajectory }) => trajectory),
    ...brokenOff,
  ]);
  const broken = trajectories.flatMap((trajectory) => brokenOff(trajectory) ?? []);
  const tooFew = groups.filter((group) => group.tooFew).length;
  const calls = trajectories.flatMap((trajectory) => trajectory.calls);
  const lost = groups.flatMap((group) => group.lost ?? []);
  const agreements = groups.flatMap((group) => group.agreement ?? []);
  const trained = groups
    .filter(({ rewarded }) => rewarded)
    .flatMap(({ members }) => members.map(({ reward }) => reward));
  return {
    rollouts: trajectories.length,
    reward: mean(trajectories.map(({ reward }) => reward.reward)),
    success: mean(trajectories.map(({ reward }) => (reward.success ? 1 : 0))),
    turns: mean(trajectories.map(({ turns }) => turns)),
    completion_tokens: mean(trajectories.map(({ completionTokens }) => completionTokens)),
    ends: count(trajectories.map(({ end }) => end)),
    tool_errors: count(calls.flatMap(({ outcome }) => (outcome === "ok" ? [] : [outcome]))),
    failures: failures.length,
    rollouts_broken_off: broken.length,
    broken_off: count(broken),
    groups: groups.length,
    groups_trainable: groups.filter(({ trainable }) => trainable).length,
    groups_flat: groups.filter(({ trainable, tooFew, lost }) => !trainable && !tooFew && lost === null).length,
    groups_unrewarded: lost.length,
    groups_lost: count(lost),
    groups_broken_off: tooFew,
    training_reward: trained.length === 0 ? null : mean(trained),
    training_n: trained.length,
    judge_agreement: agreements.length === 0 ? null : mean(agreements),
    learning_rate: learningRate,
    skipped: update ? update.skipped : skipReason(groups.length, lost.length, tooFew),
    tokens: update?.tokens.total ?? 0,
    sampled_tokens: update?.tokens.sampled ?? 0,
    loss: update?.loss ?? null,
    kl: update?.klRollout.k3 ?? null,
    kl_base: update?.klBase ?? null,
    gap: update?.gap ?? null,
    probe: null,
    grad_norm: update?.gradNorm ?? null,
    entropy: update?.entropy ?? null,
    clip_fraction: update?.clipFraction ?? null,
  };
}

function skipReason(groups: number, lost: number, tooFew: number): SkipReason {
  if (lost + tooFew === 0 || lost + tooFew < groups) return "no_spread";
  return tooFew >= lost ? "broken_off" : "unrewarded";
}
