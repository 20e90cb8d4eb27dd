/**
 * The front door of training: a plan, a run that is open, and the steps that it makes. What they need is loaded with the first
 * call.
 */
import { UsageError } from "../core/util/errors.js";
import type { Model } from "./model.js";
import type { RunPlan } from "./plan-run.js";
import type { TrainSummary } from "./summary.js";
import type { OpenTask } from "./task.js";
import type { RunEvents, RunOptions, TrainRunChoice, TrainRunOptions } from "./train-options.js";
import type { TrainingRun } from "./training-run.js";

/**
 * What a training would be, with nothing loaded or begun: its folder, its settings, its model's file, and what fits this machine.
 * Options are those of `hone train`.
 *
 * @throws UsageError when an option is wrong, or they do not go together
 * @throws HoneError when the model cannot be trained, or the run does not fit this machine
 */
export async function planRun(options: TrainRunOptions, choice: TrainRunChoice = {}): Promise<RunPlan> {
  const { planGiven } = await import("./given-plan.js");
  return planGiven(options, choice);
}

/** Opens a planned run: its folder, its learner and its model, which ends with it. */
export async function openRun(plan: RunPlan, events?: RunEvents): Promise<TrainingRun>;
/**
 * Starts a run, or resumes it after its last complete step. The options of play come from the model, scenarios and seed from
 * the task.
 *
 * @throws UsageError when an option is wrong, or differs from those of the existing run
 * @throws HoneError when the model cannot be trained, or another process holds the run
 */
export async function openRun(model: Model, task: OpenTask, options?: RunOptions): Promise<TrainingRun>;
export async function openRun(
  opened: RunPlan | Model,
  given: RunEvents | OpenTask = {},
  options: RunOptions = {},
): Promise<TrainingRun> {
  const [{ openPlanned }, { checkEvents, planOpened }] = await Promise.all([
    import("./open-run.js"),
    import("./given-plan.js"),
  ]);
  if (!opened || !given || !("engine" in opened || "settings" in opened))
    throw new UsageError("openRun() takes a model of openModel() and a task of openTask(), or a plan of planRun()");
  if (!("engine" in opened)) {
    checkEvents("openRun()", given);
    return openPlanned(opened, given as RunEvents);
  }
  if (typeof given !== "object" || !("scenarios" in given))
    throw new UsageError("openRun(): its second argument must be a task of openTask()");
  return openPlanned(await planOpened(opened, given as OpenTask, options), options, opened);
}

/**
 * Trains a model, or goes on with a run that was interrupted, up to its last step. Options are those of `hone train`, which is
 * this function and its output.
 *
 * @throws UsageError when an option is wrong, or it would be another run now
 * @throws HoneError when the run cannot go on, or is interrupted; finished steps are kept
 */
export async function trainRun(options: TrainRunOptions, choice: TrainRunChoice = {}): Promise<TrainSummary> {
  const started = performance.now();
  const plan = await planRun(options, choice);
  const { reward: _reward, spreadFloor: _spreadFloor, ...events } = choice;
  const run = await openRun(plan, events);
  try {
    for await (const _ of run) {
      // Its events tell of each step.
    }
    return { ...run.summary(), seconds: (performance.now() - started) / 1000 };
  } finally {
    await run.close();
  }
}
