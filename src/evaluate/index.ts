/** Evaluation: several players on the same scenarios, none of which they were trained on. */
export { type Comparison, type EvalView, evaluatePlayers } from "./evaluate.js";
