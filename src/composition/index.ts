/**
 * The library: a program opens a model and a task, plays groups, assigns rewards, and updates the model. The loop is
 * written by the program, as in examples/train.ts, or is hone's, by `trainRun`.
 */
export { type EvaluateChoice, evaluate } from "./evaluate.js";
export type { TrainEvents, TrainStart } from "./events.js";
export { type GatherChoice, gather } from "./gather.js";
export { Model, type ModelOptions, openModel } from "./model.js";
export {
  createHone,
  type HoneProvider,
  type HoneProviderOptions,
  type LocalProviderOptions,
  type ServedProviderOptions,
} from "./provider.js";
export type { GivenReward } from "./rewards.js";
export { type Ruler, type RulerOptions, ruler } from "./ruler.js";
export { openRun, type RunOptions, TrainingRun } from "./run.js";
export { type SftChoice, type SftOptions, type SftSummary, sft, sftOptions } from "./sft.js";
export type { TrainSummary } from "./summary.js";
export { type OpenTask, openTask, type TaskChoice } from "./task.js";
export { type TrainChoice, train } from "./train.js";
export { type RewardFunction, type TrainRunChoice, type TrainRunOptions, trainOptions, trainRun } from "./train-run.js";
