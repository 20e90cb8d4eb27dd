/** Checks of a task before anything is trained on it. */
export { type CheckResult, checkTask } from "./check.js";
export type { Finding } from "./findings.js";
export { type CheckedServer, checkServers } from "./servers.js";
