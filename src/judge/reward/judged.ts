/** The judge's part in training: rewards of groups, and whether held-out answers are right. */

import type { Graded, GradeRollout, RewardGroup } from "../../core/reward/reward.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import type { JudgeCount } from "../../core/run/records.js";
import type { AnyTask, Reward } from "../../core/task/task.js";
import { judgeCorrectness } from "../correctness.js";
import type { Judge } from "../judge.js";
import { NoVerdict } from "../no-verdict.js";
import { type GroupVerdict, judgeGroup, type RulerSettings } from "../ruler.js";
import { allAlike } from "../serialise.js";
import { claimOf, finishedOf, requireClaim, requireShaped } from "./claims.js";

/** The judge, the signal that ends its work, and the callback for its cost. */
export interface JudgingContext {
  readonly judge: Judge;
  readonly signal: AbortSignal;
  /** Must be called after every paid request. */
  readonly onSpent: () => void;
}

/** Input of a correctness judge. */
export interface GradingContext extends JudgingContext {
  readonly task: AnyTask;
  /** The task's environment, opened on this thread. */
  readonly env: unknown;
}

/** RULER's scores in place of the rewards. */
export function rulerReward(
  { judge, signal, onSpent }: JudgingContext,
  settings: RulerSettings,
  onVerdict: (group: readonly Trajectory[], verdict: GroupVerdict) => void,
): RewardGroup {
  return async (group) => {
    // Nothing to compare, so no request.
    if (allAlike(group)) return { kind: "alike" };
    const verdict = await judgeGroup(group, judge, settings, signal);
    onSpent();
    onVerdict(group, verdict);
    const { scores, noVerdict, agreement } = verdict;
    if (!scores) return { kind: "no_verdict", reason: noVerdict?.reason ?? "no_scores" };
    return {
      kind: "rewarded",
      rewards: scores.map(({ score }) => score),
      explanations: scores.map(({ explanation }) => explanation),
      agreement,
    };
  };
}

/** The task's graded reward, for answers that the judge has called right or wrong. */
export function shapedReward(context: GradingContext): RewardGroup {
  const grade = gradeShaped(context);
  return async (group) => {
    const grades = await Promise.all(group.map(grade));
    const noVerdict = grades.find((one) => one.kind === "no_verdict");
    if (noVerdict) return { kind: "no_verdict", reason: noVerdict.reason };
    return { kind: "rewarded", rewards: grades.flatMap((one) => (one.kind === "graded" ? one.reward.reward : [])) };
  };
}

/** Rewards a rollout once its answer is known to be right or wrong. */
function grading(
  { judge, task, signal, onSpent }: GradingContext,
  reward: (trajectory: Trajectory, right: boolean) => Reward | Promise<Reward>,
): GradeRollout {
  return async (trajectory): Promise<Graded> => {
    const claim = trajectory.reward.success ? null : claimOf(task, trajectory);
    try {
      const right = claim ? (await judgeCorrectness(claim, judge, signal)).accept : trajectory.reward.success;
      return { kind: "graded", reward: await reward(trajectory, right) };
    } catch (error) {
      if (!(error instanceof NoVerdict)) throw error;
      return { kind: "no_verdict", reason: error.reason };
    } finally {
      if (claim) onSpent();
    }
  };
}

/** The task's graded reward (`--reward shaped`). */
export function gradeShaped(context: GradingContext): GradeRollout {
  const { task, env } = context;
  requireShaped(task);
  return grading(context, (trajectory, right) =>
    (task.shaped as NonNullable<AnyTask["shaped"]>)(finishedOf(trajectory), trajectory.scenario, env, right),
  );
}

/** The task's own reward, with the judge's decision on success (`--accuracy judge`). */
export function gradeSuccess(context: GradingContext): GradeRollout {
  requireClaim(context.task, "--accuracy judge");
  return grading(context, ({ reward }, right) => ({ ...reward, success: right }));
}

/** Returns a function that gives the judge's usage since its last call. */
export function judgeLaps(judge: Judge): () => JudgeCount {
  const now = (): JudgeCount => ({ ...judge.usage(), cached: judge.cached });
  let last = now();
  return () => {
    const before = last;
    last = now();
    return {
      requests: last.requests - before.requests,
      prompt_tokens: last.prompt_tokens - before.prompt_tokens,
      completion_tokens: last.completion_tokens - before.completion_tokens,
      cost: last.cost === null ? null : last.cost - (before.cost ?? 0),
      cached: last.cached - before.cached,
    };
  };
}
