/** Opens a run that a program steps through. What it needs is loaded with the first call. */
import type { Model } from "./model.js";
import type { OpenTask } from "./task.js";
import type { RunOptions, TrainingRun } from "./training-run.js";

/**
 * Starts a run, or resumes it after its last complete step. The options of play come from the model, the seed from the
 * task.
 *
 * @throws UsageError when an option is wrong, or differs from those of the existing run
 * @throws HoneError when the model cannot be trained, or another process holds the run
 */
export async function openRun(model: Model, task: OpenTask, options: RunOptions = {}): Promise<TrainingRun> {
  const { beginRunOf } = await import("./open-run.js");
  return await beginRunOf(model, task, options);
}
