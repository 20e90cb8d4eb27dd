/** The part that a run whose steps a program makes (`openRun`) shares with one whose steps hone makes (`trainRun`). */
import type { Config } from "../config/config.js";
import { ensurePython, type PythonOptions } from "../python-env/python.js";
import { type BeginRun, beginRun } from "../run/begin.js";
import type { Run } from "../run/run.js";
import type { LoopParts } from "../train/parts.js";
import { LastUpdates } from "../train/policy-slope.js";
import { risingRateText } from "../train/schedule.js";
import { loopSettings } from "../train/settings.js";
import { type LearnerUpdater, openUpdater, type UpdaterSources } from "../train/updater.js";
import type { Model } from "./model.js";
import type { OpenTask } from "./task.js";

/** The parts that make the steps of a run. */
export type Steps = Omit<LoopParts, "scenarios" | "rewardGroup" | "signal">;

export interface Begun {
  readonly run: Run;
  readonly updater: LearnerUpdater;
}

/**
 * The learner's interpreter. Hone's own is installed when the learner is started: beside the engine and the first rollouts. One
 * that the user names is checked now.
 *
 * @throws HoneError when that one cannot be used
 */
export async function learnerPython(options: PythonOptions): Promise<UpdaterSources["python"]> {
  if (options.python === undefined) return (signal) => ensurePython({ ...options, signal });
  const given = await ensurePython(options);
  return async () => given;
}

/** A run, begun or gone on with, and its learner, which is not started yet. */
export async function beginWithLearner(
  beginning: BeginRun,
  learner: Omit<UpdaterSources, "run" | "settings">,
): Promise<Begun> {
  const { settings } = beginning;
  const run = await beginRun(beginning);
  return { run, updater: openUpdater({ ...learner, run, settings }) };
}

/** Warns where more steps than before raise the learning rate of a run again. */
export function warnOfRate(run: Run, settings: BeginRun["settings"], log: (text: string) => void): void {
  const at = run.store.lastStep();
  const rate = at.metrics?.learning_rate;
  if (rate === undefined) return;
  const standing = { name: run.name, step: at.step, rate, checkpoint: run.checkpointOf(at) };
  const text = risingRateText(settings, settings.steps, standing);
  if (text !== undefined) log(text);
}

interface Stepping {
  readonly model: Model;
  readonly task: OpenTask;
  readonly settings: BeginRun["settings"];
  readonly config: Pick<Config, "maxMismatch" | "hfWeights" | "releaseWeights">;
  /** See AdvantageOptions; of the rewards. */
  readonly spreadFloor: number;
  /** See LoopSettings. */
  readonly apart: boolean;
  readonly view: Steps["view"];
}

export async function stepsOf({ run, updater }: Begun, { model, task, settings, config, view, ...about }: Stepping) {
  return {
    run,
    updater,
    settings: loopSettings(settings, config, model.info, about),
    policy: await model.policy(task, config.releaseWeights),
    lastUpdates: new LastUpdates(),
    view,
  } satisfies Steps;
}
