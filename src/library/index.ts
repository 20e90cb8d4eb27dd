/**
 * The library: a program opens a model and a task, plays groups, assigns rewards, and updates the model. The loop is
 * written by the program; examples/train.ts is one.
 */
export { type EvaluateChoice, evaluate } from "./evaluate.js";
export { type GatherChoice, gather } from "./gather.js";
export { Model, type ModelOptions, openModel } from "./model.js";
export { type Ruler, type RulerOptions, ruler } from "./ruler.js";
export { openRun, type RunOptions, TrainingRun } from "./run.js";
export { type OpenTask, openTask, type TaskChoice } from "./task.js";
export { type GivenReward, type TrainChoice, train } from "./train.js";
