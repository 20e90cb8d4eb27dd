/** Conversations from the logs that an agent writes. */
export { MASKED, Mask, type Masked, NOT_MASKED } from "./mask.js";
export type { UnusedReason } from "./messages.js";
export { type ReadLogs, readLogs } from "./read.js";
export type { LoggedCall } from "./records.js";
