/** Excludes rollouts that a tool or waiting for the engine ended from the comparison within their group. */
import { brokenOff } from "../rollout/deadline.js";
import type { Trajectory } from "../rollout/trajectory.js";
import type { RewardGroup } from "./reward.js";

/** The rollouts of a group that are rewarded, trained on and sent to a judge. */
export function comparable(group: readonly Trajectory[]): readonly Trajectory[] {
  return group.filter((trajectory) => brokenOff(trajectory) === null);
}

/** Whether too few rollouts of a group are left to be compared. A group of one rollout needs only that one. */
export function tooFewLeft(left: readonly Trajectory[], group: readonly Trajectory[]): boolean {
  return left.length < Math.min(2, group.length);
}

/**
 * Rewards the comparable rollouts of a group, and notes whose they are. Where too few are left, neither the task nor the judge is
 * called.
 */
export function rewardComparable(rewardGroup: RewardGroup): RewardGroup {
  return async (group, step) => {
    const left = comparable(group);
    if (tooFewLeft(left, group)) return { kind: "broken_off" };
    const reward = await rewardGroup(left, step);
    return reward.kind === "rewarded" ? { ...reward, of: left.map(({ id }) => id) } : reward;
  };
}
