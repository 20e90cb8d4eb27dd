/** `--reward task`. */
import { rulerWeightOf } from "../tasks/compose.js";
import { UsageError } from "../util/errors.js";
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
  requireTask: (task) => {
    if (rulerWeightOf(task.reward) === undefined) return;
    throw new UsageError(
      `--reward task: the reward of the task ${task.name} has a part for a judge; train with --reward composed, or take \`ruler\` out of it`,
    );
  },
  open: () => taskReward,
};
