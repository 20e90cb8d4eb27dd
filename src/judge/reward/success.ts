/** `--reward success`. */
import { ordinary, type RewardKind } from "./kind.js";

/** 1 for a rollout that solved its scenario and 0 for any other: what a graded reward adds to it shows in the comparison. */
export const successKind: RewardKind = {
  ...ordinary,
  name: "success",
  about: "1 where the task says that the rollout succeeded, else 0: no partial credit",
  judged: false,
  open: () => async (group) => ({ kind: "rewarded", rewards: group.map(({ reward }) => (reward.success ? 1 : 0)) }),
};
