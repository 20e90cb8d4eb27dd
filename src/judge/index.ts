/** The door of the judging room. */

export { type JudgeUsage, noUsage } from "./budget.js";
export { openVerdictFile, SqliteVerdicts, VERDICTS_TABLE, type VerdictCache } from "./cache.js";
export { type ClientSettings, JudgeClient, JudgeStopped, type OwnJudge } from "./client.js";
export { type CorrectnessVerdict, correctnessQuestion, judgeCorrectness, majority } from "./correctness.js";
export { type AnswerForm, objectOf, textWithin } from "./form.js";
export { objectWith } from "./json.js";
export { type Exchange, Judge, NoVerdictAfterAnswers, type Question, type Verdict } from "./judge.js";
export { NoVerdict, type NoVerdictReason } from "./no-verdict.js";
export { costOf, type PriceTable, priceOf, readPrices } from "./prices.js";
export { defaultRubric, type GroupVerdict, judgeGroup, type RulerSettings, type Score, type Vote } from "./ruler.js";
export { allAlike, tagless } from "./serialise.js";
