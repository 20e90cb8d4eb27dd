/** From finished groups to what the update learns of them: rewards, then advantages, then the batch. */
import { type AdvantageOptions, type BatchGroup, groupAdvantages } from "../learn/index.js";
import type { Trajectory } from "../rollout/index.js";
import { HoneError } from "../util/errors.js";
import { Random } from "../util/random.js";
import type { RewardGroup } from "./parts.js";
import type { Lesson } from "./store.js";

export interface TaughtMember {
  readonly trajectory: Trajectory;
  readonly reward: number;
  readonly advantage: number;
}

/** A group with what training makes of it. */
export interface Taught {
  readonly members: readonly TaughtMember[];
  /** False when no reward could be had: nothing of it trains. */
  readonly rewarded: boolean;
  /** False when it teaches nothing: no reward, or no spread. */
  readonly trainable: boolean;
}

/** The task's own reward. */
export const taskReward: RewardGroup = async (group) => group.map(({ reward }) => reward.reward);

/** A control: fair coins in place of rewards. What rises under it did not rise because of the reward. */
export function randomReward(seed: number): RewardGroup {
  return async (group, step) =>
    group.map(({ scenario, index }) =>
      new Random("random-reward", seed, step, scenario.id, index).chance(0.5) ? 1 : 0,
    );
}

export async function teach(
  groups: readonly (readonly Trajectory[])[],
  step: number,
  rewardGroup: RewardGroup,
  options: AdvantageOptions,
): Promise<Taught[]> {
  return Promise.all(
    groups.map(async (group) => {
      const rewards = await rewardGroup(group, step);
      if (!rewards) {
        const members = group.map((trajectory) => ({ trajectory, reward: trajectory.reward.reward, advantage: 0 }));
        return { members, rewarded: false, trainable: false };
      }
      const { advantages, trainable } = groupAdvantages(rewards, options);
      const members = group.map((trajectory, i) => ({
        trajectory,
        reward: rewards[i] as number,
        advantage: advantages[i] as number,
      }));
      return { members, rewarded: true, trainable };
    }),
  );
}

/** What is noted beside the rollouts when the step is committed. */
export function lessonsOf(groups: readonly Taught[]): Lesson[] {
  return groups
    .filter(({ rewarded }) => rewarded)
    .flatMap(({ members }) =>
      members.map(({ trajectory, reward, advantage }) => ({
        scenario: trajectory.scenario.id,
        member: trajectory.index,
        reward,
        advantage,
      })),
    );
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
