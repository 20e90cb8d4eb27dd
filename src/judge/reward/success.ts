/** `--reward success`. */
import { ordinary, type RewardCode } from "./kind.js";

/** 1 for a rollout that solved its scenario and 0 for any other: what a graded reward adds to it shows in the comparison. */
export const successCode: RewardCode = {
  ...ordinary,
  open: () => async (group) => ({ kind: "rewarded", rewards: group.map(({ reward }) => (reward.success ? 1 : 0)) }),
};
