/** `--reward shaped`: the task's graded reward, for which a judge says whether the answer is right. */
import { requireShaped } from "./claims.js";
import { ordinary, type RewardCode } from "./kind.js";

export const shapedCode: RewardCode = {
  ...ordinary,
  needsEnv: true,
  requireTask: requireShaped,
  open: async (context) => (await import("./judged.js")).shapedReward(context),
  grade: async (context) => (await import("./judged.js")).gradeShaped(context),
};
