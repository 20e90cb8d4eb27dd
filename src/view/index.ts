/** Views of runs: the live page, and the report in one file. The page's source is in web/. */
export { writeEvaluation } from "./evaluation-file.js";
export type { LiveServer } from "./loopback.js";
export { type ReportSummary, writeReport } from "./report-file.js";
export { type ReviewSource, serveReview } from "./review-server.js";
export { openRuns, type SeenRun } from "./runs.js";
export { serveRuns } from "./server.js";
export type * from "./wire.js";
