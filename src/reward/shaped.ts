/** `--reward shaped`: the task's graded reward, for which a judge says whether the answer is right. */
import { gradeShaped, requireShaped, shapedReward } from "./judged.js";
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
  open: shapedReward,
  grade: gradeShaped,
};
