/** Runs to look at: the live page, and the report that is one file. The page's source is in web/. */
export { writeEvaluation } from "./evaluation-file.js";
export { type ReportSummary, writeReport } from "./report-file.js";
export { openRuns, type SeenRun } from "./runs.js";
export { type LiveServer, serveRuns } from "./server.js";
export type * from "./wire.js";
