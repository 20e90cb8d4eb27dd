/** Recomputes committed steps of runs. */
export { replay } from "./replay.js";
export type { ReplayCheck, Replayed } from "./types.js";
