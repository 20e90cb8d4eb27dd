/** `--reward task`. */
import type { RewardGroup } from "./reward.js";

/** The task's own reward. */
export const taskReward: RewardGroup = async (group) => ({
  kind: "rewarded",
  rewards: group.map(({ reward }) => reward.reward),
});
