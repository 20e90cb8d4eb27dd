/** `--reward shaped`: the task's graded reward, for which a judge says whether the answer is right. */
import { requireShaped } from "./claims.js";
import { ordinary, type RewardKind } from "./kind.js";

export const shapedKind: RewardKind = {
  ...ordinary,
  comparesByWording: false,
  name: "shaped",
  about: "the task's graded reward, for which a judge says whether the answer is right (ART-E's, for email)",
  judged: true,
  accuracy: "judge",
  needsEnv: true,
  requireTask: requireShaped,
  open: async (context) => (await import("./judged.js")).shapedReward(context),
  grade: async (context) => (await import("./judged.js")).gradeShaped(context),
};
