/** Output for people: progress, summaries, conversations, tables. */

export { type CallsOfMessage, callsByMessage, failureOf } from "./calls.js";
export { engineFacts, engineKinds, engineText, learnerFacts, learnerText } from "./compute.js";
export { conversationText, messageLines } from "./conversation.js";
export {
  type CorrectnessQuality,
  correctnessQuality,
  correctnessQualityText,
  type JudgedAnswer,
} from "./correctness-quality.js";
export { type DifficultyCount, difficultyOf, difficultyText, isWithin } from "./difficulty.js";
export { checkpointTitle, evalText, matrixText } from "./eval-report.js";
export { callErrors, count, countsText, evaluate, kindsText, mean, meansOf, partsText } from "./evaluation.js";
export { clustered, clustersOf } from "./interval.js";
export {
  type JudgeQuality,
  judgeQuality,
  judgeQualityText,
  type LabelledGroup,
  orderCluster,
} from "./judge-quality.js";
export { groupVerdictText, usageText } from "./judge-report.js";
export {
  type Column,
  type Contestant,
  type Effort,
  type Matrix,
  type Outcome,
  pairsOf,
  type Result,
} from "./matrix.js";
export { metricsCsv } from "./metrics-csv.js";
export { bar, clock, compact, ProgressLine } from "./progress-line.js";
export { Mean, type RolloutSummary, RolloutTally } from "./rollout-report.js";
export { playedText, sideBySide, wrap } from "./side-by-side.js";
export { columnTexts, judgedNotes, noteLines, StepTable } from "./step-table.js";
export { type Share, shareText, TrainView } from "./train-view.js";
export { showTraining } from "./training-shown.js";
export { UnknownTools } from "./unknown-tools.js";
export { UnreadCalls } from "./unread-calls.js";
export { type Unsolved, unsolvedText } from "./unsolved.js";
