/** Training: the step, the loop round it, and all that is brought up for them; evaluation of what came out. */
export { evalOptions, evaluateRun } from "./eval.js";
export { gapLimit } from "./gap.js";
export { prepare, type TrainConfig, trainOptions } from "./prepare.js";
export { measureProbe, readProbe } from "./probe.js";
export { runTraining, type TrainSummary } from "./training.js";
export { scratch, writeLessons } from "./warm-start.js";
