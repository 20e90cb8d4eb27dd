/** The contract of rewards: the training reward of a group, and the grading of held-out answers. */
import type { LocalEngine } from "../engine/engine.js";
import type { Trajectory } from "../rollout/trajectory.js";
import type { JudgeCount } from "../run/records.js";
import type { Reward } from "../task/task.js";

/** The training rewards of a group. */
export type GroupReward =
  | {
      readonly kind: "rewarded";
      /** For each comparable rollout of the group (comparable.ts), in order. */
      readonly rewards: readonly number[];
      /** Ids of the rollouts that they were asked for (rewardComparable); missing where a program gave them. */
      readonly of?: readonly string[];
      /** A judge's explanations. */
      readonly explanations?: readonly string[];
      /** Parts of each reward besides the task's own parts. */
      readonly parts?: readonly Readonly<Record<string, number>>[];
      /** How far a judge's votes agree, 0 to 1. */
      readonly agreement?: number | null;
    }
  /** All rollouts are identical: a judge has nothing to compare. */
  | { readonly kind: "alike" }
  /** Fewer than two rollouts are left to compare: the others ended by no fault of the model. */
  | { readonly kind: "broken_off" }
  /** The group could not be rewarded: it is left out and counted under its cause. */
  | { readonly kind: "no_verdict"; readonly reason: string };

export type RewardGroup = (group: readonly Trajectory[], step: number) => Promise<GroupReward>;

/** A held-out rollout's reward when a judge, not the task, decides whether its answer is right. */
export type Graded =
  | { readonly kind: "graded"; readonly reward: Reward }
  | { readonly kind: "no_verdict"; readonly reason: string };

export type GradeRollout = (trajectory: Trajectory) => Promise<Graded>;

/** The rewards of a run, from its settings. */
export interface Rewards {
  readonly rewardGroup: RewardGroup;
  /** Spread of a group's rewards below which they are noise; see AdvantageOptions. */
  readonly spreadFloor: number;
  /** Says whether held-out answers are right; absent where the task's own reward does. */
  readonly grade?: GradeRollout;
  /** What the judge was asked since the last call of this; absent without a judge. */
  readonly judgeLap?: () => JudgeCount;
  /** Gives back the memory of a judge that hone runs, until it is asked again; absent without one. */
  readonly restJudge?: () => Promise<void>;
  /** Tells a judge that hone runs which engine plays at the same time. */
  readonly judgeBeside?: (player: LocalEngine) => void;
  close(): Promise<void>;
}
