/** `--reward task`. */

import type { RewardGroup } from "../../core/reward/reward.js";
import { UsageError } from "../../core/util/errors.js";
import { rulerWeightOf } from "./compose.js";
import { ordinary, type RewardCode } from "./kind.js";

/** The task's own reward. */
export const taskReward: RewardGroup = async (group) => ({
  kind: "rewarded",
  rewards: group.map(({ reward }) => reward.reward),
});

export const taskCode: RewardCode = {
  ...ordinary,
  requireTask: (task) => {
    if (rulerWeightOf(task.reward) === undefined) return;
    throw new UsageError(
      `--reward task: the reward of the task ${task.name} has a part for a judge; train with --reward composed, or take \`ruler\` out of it`,
    );
  },
  open: () => taskReward,
};
