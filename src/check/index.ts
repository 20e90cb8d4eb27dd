/** Checks of a task before anything is trained on it. */
export { type CheckResult, checkTask } from "./check.js";
export type { Finding } from "./findings.js";
