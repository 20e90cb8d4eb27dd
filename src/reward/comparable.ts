/** Which rollouts of a group are compared with each other: those that ended by their player's own doing. */
import { brokenOff, type Trajectory } from "../rollout/index.js";
import type { RewardGroup } from "./reward.js";

/** What is rewarded, trained and shown to a judge. */
export function comparable(group: readonly Trajectory[]): readonly Trajectory[] {
  return group.filter((trajectory) => brokenOff(trajectory) === null);
}

/** Rewards what is comparable of a group. Of a single rollout that is left, nobody is asked anything. */
export function rewardComparable(rewardGroup: RewardGroup): RewardGroup {
  return async (group, step) => {
    const left = comparable(group);
    return left.length < Math.min(2, group.length) ? { kind: "broken_off" } : rewardGroup(left, step);
  };
}
