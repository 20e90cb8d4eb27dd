/** `--reward composed`: the task's composed reward, with a judge's score as one of its parts. */

import { UsageError } from "../../core/util/errors.js";
import { RULER_PART, rulerWeightOf } from "./compose.js";
import { ordinary, type RewardCode } from "./kind.js";
import { rulerCode } from "./ruler.js";

export const composedCode: RewardCode = {
  ...ordinary,
  contents: rulerCode.contents,
  requireTask: (task) => {
    if (rulerWeightOf(task.reward) !== undefined) return;
    throw new UsageError(
      `--reward composed: the reward of the task ${task.name} has no part for a judge; give composeReward a weight for \`ruler\``,
    );
  },
  open: async (context) => {
    const weight = rulerWeightOf(context.task.reward) as number;
    const judge = await rulerCode.open(context);
    return async (group, step) => {
      const judged = await judge(group, step);
      if (judged.kind !== "rewarded") return judged;
      return {
        ...judged,
        rewards: judged.rewards.map((score, i) => (group[i]?.reward.reward as number) + weight * score),
        parts: judged.rewards.map((score) => ({ [RULER_PART]: score })),
      };
    };
  },
};
