/** hone's own training loop, which `yarn train` is, for programs. What it needs is loaded with the first call. */
import type { TrainSummary } from "./summary.js";
import type { TrainRunChoice, TrainRunOptions } from "./train-options.js";

/**
 * Trains a model, or goes on with a run that was interrupted, up to its last step: plans memory, plays, rewards, updates,
 * validates, and stops where nothing is learnt. Options are those of `hone train`.
 *
 * @throws UsageError when an option is wrong, or it would be another run now
 * @throws HoneError when the run cannot go on, or is interrupted; finished steps are kept
 */
export async function trainRun(options: TrainRunOptions, choice: TrainRunChoice = {}): Promise<TrainSummary> {
  const { runTraining } = await import("./training.js");
  return await runTraining(options, choice);
}
