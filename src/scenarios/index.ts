/** Scenarios from what one has: a model writes them, filters keep those that hold, a person looks them over. */

export { type ImportSummary, importLogs } from "./import.js";
export { type GenerateConfig, type GenerateSummary, generateScenarios } from "./open.js";
export { reviewed } from "./review.js";
