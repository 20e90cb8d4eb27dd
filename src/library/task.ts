/** A task with its scenarios, as the library plays it. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import {
  type AnyTask,
  loadTask,
  type PlainOptions,
  type Scenario,
  scenariosOf,
  taskOptionsOf,
} from "../tasks/index.js";

export interface TaskChoice {
  /** The task's own options. */
  readonly set?: PlainOptions;
  /** Of everything random: the task's scenarios, rollouts, the learner. Default 1. */
  readonly seed?: number;
  /** Folder that holds hone's state. Default ".hone". */
  readonly home?: string;
}

export interface OpenTask {
  readonly task: AnyTask;
  /** "email", or the path of the task's file: worker threads load it themselves. */
  readonly reference: string;
  /** All that the task is told: its own options, `seed` and `home`. */
  readonly options: PlainOptions & { readonly seed: number; readonly home: string };
  readonly scenarios: readonly Scenario[];
  /** Those to learn from. */
  readonly train: readonly Scenario[];
  /** Those to evaluate on. */
  readonly test: readonly Scenario[];
}

/**
 * @param reference "email", or the path of a file whose default export comes from `defineTask`
 * @throws UsageError when there is no such file, or the task has no such option
 * @throws HoneError when the task's own code fails
 */
export async function openTask(
  reference: string,
  { set = {}, seed = 1, home = ".hone" }: TaskChoice = {},
): Promise<OpenTask> {
  const task = await loadTask(reference);
  const options = { ...taskOptionsOf(task, { home, seed }, set), seed, home };
  const scenarios = await scenariosOf(task, options);
  const of = (split: Scenario["split"]) => scenarios.filter((scenario) => scenario.split === split);
  return {
    task,
    reference: existsSync(reference) ? resolve(reference) : reference,
    options,
    scenarios,
    train: of("train"),
    test: of("test"),
  };
}
