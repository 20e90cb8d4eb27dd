/** The door of the judging room. */
export { openVerdictFile, SqliteVerdicts, VERDICTS_TABLE, type VerdictCache } from "./cache.js";
export { type ClientSettings, JudgeClient, JudgeStopped } from "./client.js";
export { type CorrectnessVerdict, judgeCorrectness } from "./correctness.js";
export { type LossReason, Lost } from "./failures.js";
export { type Exchange, Judge } from "./judge.js";
export { costOf, type PriceTable, priceOf, readPrices } from "./prices.js";
export { type JudgeUsage, noUsage } from "./purse.js";
export { defaultRubric, type RulerSettings, type Ruling, rule, type Score, type Vote } from "./ruler.js";
export { allAlike } from "./serialise.js";
