/** The metrics of a step, from its groups and its update. */
import { deviation } from "../learn/advantages.js";
import type { StepMetrics } from "../learn/types.js";
import { brokenOff } from "../rollout/deadline.js";
import { type RolloutFailure, recordsOf, type Trajectory } from "../rollout/trajectory.js";
import { callErrors, count, mean, meansOf, successInterval, summed } from "../run/evaluation.js";
import type { SkipReason, StepMetricsRow } from "../run/records.js";
import { type CreditedGroup, drawsOf, hasZeroAdvantages, rolloutsOf } from "./credit.js";
import type { EarlierPolicy } from "./earlier.js";

/**
 * @param about `further`: number of groups that were played in place of some with advantages of 0; `resting`: of scenarios that sat out;
 *   `earlier`: policy that `played` of the update is about; `version` and `staleness` as in the row
 */
export function stepMetricsRow(
  groups: readonly CreditedGroup[],
  failures: readonly RolloutFailure[],
  learningRate: number,
  update: StepMetrics | null,
  {
    further = 0,
    resting = 0,
    earlier,
    version = 0,
    staleness = 0,
  }: {
    further?: number;
    resting?: number;
    earlier?: EarlierPolicy | undefined;
    version?: number;
    staleness?: number;
  } = {},
): StepMetricsRow {
  const trajectories = rolloutsOf(groups);
  const { low, high } = successInterval(trajectories);
  const broken = trajectories.flatMap((trajectory) => brokenOff(trajectory) ?? []);
  const tooFew = groups.filter((group) => group.tooFew).length;
  const noVerdict = groups.flatMap((group) => group.noVerdict ?? []);
  const agreements = groups.flatMap((group) => group.agreement ?? []);
  const trained = groups
    .filter(({ rewarded }) => rewarded)
    .flatMap(({ members }) => members.map(({ reward }) => reward));
  return {
    rollouts: trajectories.length,
    reward: mean(trajectories.map(({ reward }) => reward.reward)),
    success: mean(trajectories.map(({ reward }) => (reward.success ? 1 : 0))),
    success_low: low,
    success_high: high,
    turns: mean(trajectories.map(({ turns }) => turns)),
    completion_tokens: mean(trajectories.map(({ completionTokens }) => completionTokens)),
    ends: count(trajectories.map(({ end }) => end)),
    tool_errors: callErrors(trajectories),
    agent: summed(trajectories.map(({ agent }) => agent ?? {})),
    failures: failures.length,
    rollouts_broken_off: broken.length,
    broken_off: count(broken),
    groups: groups.length,
    groups_trainable: groups.filter(({ hasSignal }) => hasSignal).length,
    groups_flat: groups.filter((group) => hasZeroAdvantages(group) && !group.allMasked).length,
    groups_masked: groups.filter(({ allMasked }) => allMasked).length,
    groups_refilled: further,
    scenarios_resting: resting,
    rollouts_masked: groups.flatMap(({ members }) => members.filter(({ masked }) => masked)).length,
    groups_unrewarded: noVerdict.length,
    groups_no_verdict: count(noVerdict),
    groups_broken_off: tooFew,
    training_reward: trained.length === 0 ? null : mean(trained),
    training_n: trained.length,
    parts: meansOf([
      ...groups.flatMap(({ members }) => members.map(({ trajectory, parts }) => parts ?? trajectory.reward.parts)),
      ...groups.flatMap(({ brokenOff }) => brokenOff.map(({ reward }) => reward.parts)),
    ]),
    ...spreadOf(groups),
    draws: drawsOf(groups),
    judge_agreement: agreements.length === 0 ? null : mean(agreements),
    learning_rate: learningRate,
    version,
    staleness,
    drift: update?.drift ?? null,
    skipped: update ? update.skipped : skipReason(groups, noVerdict.length, tooFew),
    tokens: update?.tokens.total ?? 0,
    sampled_tokens: update?.tokens.sampled ?? 0,
    loss: update?.loss ?? null,
    updates: update?.updates ?? 0,
    mismatch_kl: update?.mismatchKl.k3 ?? null,
    kl_base: update?.klBase ?? null,
    mismatch: update?.mismatch ?? null,
    probe_kl: update?.probeKl ?? null,
    played: update?.played && earlier ? { ...update.played, earlier: earlier.checkpoint } : null,
    probe: null,
    grad_norm: update?.gradNorm ?? null,
    entropy: entropyOf(trajectories),
    entropy_trained: update?.entropy ?? null,
    clip_fraction: update && update.clip.below + update.clip.above,
    clip_below: update?.clip.below ?? null,
    clip_above: update?.clip.above ?? null,
    importance_truncated: update?.importance.truncated ?? null,
    importance_masked: update?.importance.masked ?? null,
    importance_ess: update?.importance.ess ?? null,
    overflows: update?.overflows ?? 0,
  };
}

/** Of groups whose rollouts are all identical a judge gives no rewards: their spread is 0. */
function spreadOf(groups: readonly CreditedGroup[]) {
  const spreads = groups
    .filter(({ noVerdict, tooFew }) => noVerdict === null && !tooFew)
    .map(({ rewarded, members }) => (rewarded ? deviation(members.map(({ reward }) => reward)) : 0));
  return { reward_spread: spreads.length === 0 ? null : mean(spreads), spread_n: spreads.length };
}

/** The mean of −log p over sampled tokens estimates the entropy of the distributions that they were drawn from. */
function entropyOf(trajectories: readonly Trajectory[]): number | null {
  let sum = 0;
  let n = 0;
  for (const { sampled, logprobs } of trajectories.flatMap(recordsOf)) {
    sampled.forEach((flag, i) => {
      if (flag !== 1) return;
      sum -= logprobs[i] as number;
      n++;
    });
  }
  return n === 0 ? null : sum / n;
}

function skipReason(groups: readonly CreditedGroup[], noVerdict: number, tooFew: number): SkipReason {
  if (groups.some(({ allMasked }) => allMasked)) return "truncated";
  if (noVerdict + tooFew === 0 || noVerdict + tooFew < groups.length) return "no_spread";
  return tooFew >= noVerdict ? "broken_off" : "unrewarded";
}
