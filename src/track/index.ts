/** Trackers: TensorBoard and Weights & Biases, each in a process of its own, which never delays training. */
export { readTrackers, TRACKERS, type TrackerName } from "./names.js";
export { type TrackedRun, Tracking } from "./tracking.js";
