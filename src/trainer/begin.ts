/** Starts or resumes a run, for `yarn train`'s loop and for programs. */

import type { RunRecord } from "../core/run/records.js";
import { Run } from "../core/run/run.js";
import { checkSameRun, type RunSettings, taskOptionsIn } from "../core/run/settings.js";
import type { AnyTask } from "../core/task/task.js";
import { taskDifferences } from "../scenarios/task-options.js";

export interface BeginRun {
  readonly folder: string;
  readonly settings: RunSettings;
  readonly contents: RunRecord["contents"];
  readonly task: AnyTask;
  /** Checkpoint folder that a new run starts from. */
  readonly fork: string | undefined;
}

/**
 * @throws UsageError when it was begun with other settings, or on other contents
 * @throws HoneError as Run.open
 */
export function beginRun({ folder, settings, contents, task, fork }: BeginRun): Promise<Run> {
  const { loraRank: rank, loraAlpha: alpha, loraTargets: targets } = settings;
  return Run.open({
    folder,
    record: { options: { ...settings }, contents },
    shape: { model: contents.model as string, lora: { rank, alpha, targets } },
    fork,
    agree: (before) => {
      const ofTask = taskDifferences(task, taskOptionsIn(before), settings.set);
      checkSameRun(before, settings, contents, folder, ofTask);
    },
  });
}
