/** Training: the step, the loop round it, and all that is brought up for them; evaluation of what came out. */
export { evalOptions, evaluateRun } from "./eval.js";
export { prepare, type TrainConfig, trainOptions } from "./prepare.js";
export { runTraining, type TrainSummary } from "./training.js";
export { scratch, writeLessons } from "./warm-start.js";
