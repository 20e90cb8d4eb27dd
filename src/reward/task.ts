/** `--reward task`. */
import { gradeSuccess } from "./judged.js";
import { ordinary, type RewardKind } from "./kind.js";
import type { RewardGroup } from "./reward.js";

/** The task's own reward. */
export const taskReward: RewardGroup = async (group) => ({
  kind: "rewarded",
  rewards: group.map(({ reward }) => reward.reward),
});

export const taskKind: RewardKind = {
  ...ordinary,
  name: "task",
  about: "the task's own reward",
  judged: false,
  open: () => taskReward,
  grade: gradeSuccess,
};
