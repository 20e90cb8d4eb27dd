/** Rewards of rollouts: the task's own, a judge's, or a control's. */
export { type AnswersSummary, judgeAnswers } from "./answers-file.js";
export { comparable, rewardComparable, tooFewLeft } from "./comparable.js";
export { GroupWork } from "./group-work.js";
export {
  type JudgeConfig,
  openJudge,
  requireJudge,
  rubricOf,
  rulerSettings,
  VERDICTS_FILE,
} from "./judge.js";
export { independentReward, type JudgeSummary, judgeFile } from "./judge-file.js";
export { requireClaim, rulerReward } from "./judged.js";
export type { RewardKind } from "./kind.js";
export { LocalJudge, type LocalJudgePlan, planLocalJudge, runsHere } from "./local-judge.js";
export { isRecomputable, judgesHere, openRewards, requireRewards, spreadFloorOf } from "./open.js";
export { programKind, programReward } from "./program.js";
export { pushesOther, rewardNamed, rewardsText } from "./registry.js";
export type { Graded, GradeRollout, GroupReward, RewardGroup, Rewards } from "./reward.js";
export { wordingWarning } from "./wording.js";
