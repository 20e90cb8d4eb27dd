/** Gathering: groups of rollouts on worker threads. */
export { type Gathered, type GatherOptions, gather } from "./gather.js";
export type { WorkerSettings } from "./job.js";
export { RolloutThreads } from "./threads.js";
