/** From finished groups to what the update learns of them: rewards, then advantages, then the batch. */
import { type AdvantageOptions, type BatchGroup, groupAdvantages } from "../learn/index.js";
import { comparable, type GroupReward } from "../reward/index.js";
import type { Trajectory } from "../rollout/index.js";
import type { Lesson } from "../run/index.js";
import { HoneError } from "../util/index.js";

export interface TaughtMember {
  readonly trajectory: Trajectory;
  readonly reward: number;
  readonly advantage: number;
  /** A judge's. */
  readonly explanation?: string;
}

/** A group with what training makes of it. */
export interface Taught {
  /** Those that are compared with each other. */
  readonly members: readonly TaughtMember[];
  /** Ended by no fault of the model: they have no part in the group's mean nor in the batch. */
  readonly brokenOff: readonly Trajectory[];
  /** So many are that fewer than two members are left. */
  readonly tooFew: boolean;
  /** False when there is no reward: nothing of it trains. */
  readonly rewarded: boolean;
  /** Why no reward could be had; null where one could, or none was needed: all rollouts are alike, or too few. */
  readonly lost: string | null;
  /** How far a judge's votes agree; null where there are none to compare. */
  readonly agreement: number | null;
  /** False when it teaches nothing: no reward, or no spread. */
  readonly trainable: boolean;
}

/** @param rewards one for each group */
export function teach(
  groups: readonly (readonly Trajectory[])[],
  rewards: readonly GroupReward[],
  options: AdvantageOptions,
): Taught[] {
  return groups.map((group, i) => teachGroup(group, rewards[i] as GroupReward, options));
}

function teachGroup(all: readonly Trajectory[], reward: GroupReward, options: AdvantageOptions): Taught {
  const group = comparable(all);
  const brokenOff = all.filter((trajectory) => !group.includes(trajectory));
  const tooFew = reward.kind === "broken_off";
  if (reward.kind !== "rewarded") {
    const members = group.map((trajectory) => ({ trajectory, reward: trajectory.reward.reward, advantage: 0 }));
    const lost = reward.kind === "lost" ? reward.reason : null;
    return { members, brokenOff, tooFew, rewarded: false, lost, agreement: null, trainable: false };
  }
  const { rewards, explanations, agreement = null } = reward;
  const { advantages, trainable } = groupAdvantages(rewards, options);
  const members = group.map((trajectory, i) => {
    const explanation = explanations?.[i];
    const taught = { trajectory, reward: rewards[i] as number, advantage: advantages[i] as number };
    return explanation === undefined ? taught : { ...taught, explanation };
  });
  return { members, brokenOff, tooFew, rewarded: true, lost: null, agreement, trainable };
}

/** What is noted beside the rollouts when the step is committed. */
export function lessonsOf(groups: readonly Taught[]): Lesson[] {
  return groups
    .filter(({ rewarded }) => rewarded)
    .flatMap(({ members }) =>
      members.map(({ trajectory, reward, advantage, explanation }) => ({
        scenario: trajectory.scenario.id,
        member: trajectory.index,
        reward,
        advantage,
        explanation: explanation ?? null,
      })),
    );
}

/**
 * Rollouts that a step's mean is over: of all groups whose rewards are known. In one without spread every advantage is 0, so
 * the batch does not hold it, but a mean over rollouts (dr-grpo, gspo) counts it, as the papers and TRL do.
 */
export function rolloutsLearntFrom(groups: readonly Taught[]): number {
  const known = groups.filter(({ lost, tooFew }) => lost === null && !tooFew);
  return known.reduce((sum, { members }) => sum + members.length, 0);
}

/** @throws HoneError when a player without tokens played */
export function batchOf(groups: readonly Taught[]): BatchGroup[] {
  return groups
    .filter(({ trainable }) => trainable)
    .map(({ members }) =>
      members.map(({ trajectory, advantage }) => {
        if (!trajectory.tokens) throw new HoneError(`the rollout ${trajectory.id} has no tokens to train on`);
        return { tokens: trajectory.tokens, advantage };
      }),
    );
}
