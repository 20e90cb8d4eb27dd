/** Sends the events of training to trackers as well as to the view. */

import { basename, dirname, join } from "node:path";
import { bestOf, type Run } from "../core/run/run.js";
import type { RunSettings } from "../core/run/settings.js";
import type { View } from "../core/train/parts.js";
import { isDue } from "../core/train/saved-play.js";
import { HoneError } from "../core/util/errors.js";
import type { TrackerName } from "../insight/track/names.js";
import type { Tracking } from "../insight/track/tracking.js";

/** @throws HoneError where the run has no record */
export async function trackingOf(
  names: readonly TrackerName[],
  run: Run,
  settings: Pick<RunSettings, "steps" | "validateEvery" | "validateN">,
  python: string,
  log: (line: string) => void,
): Promise<Tracking> {
  const record = run.store.record();
  if (!record) throw new HoneError(`${run.folder} has no record`);
  // A step that is not settled may be taken back.
  const unsettled = run.store.unsettledStep()?.step ?? Number.POSITIVE_INFINITY;
  const tracked = {
    folder: run.folder,
    // HOME/PROJECT/models/RUN.
    project: basename(dirname(dirname(run.folder))),
    record,
    steps: run.store.steps().filter(({ step }) => step < unsettled),
    validations: run.store.validations(),
    validated: (step: number) => settings.validateN > 0 && (step === 0 || isDue(settings, step)),
  };
  const { Tracking } = await import("../insight/track/tracking.js");
  return new Tracking(names, tracked, python, log);
}

/** Passes every event to both. */
export function tracked(view: View, tracking: Tracking): View {
  return {
    phase: (step, phase, total) => {
      view.phase(step, phase, total);
      tracking.phase(step, phase);
    },
    rollout: (trajectory) => {
      view.rollout(trajectory);
      tracking.rollout(trajectory);
    },
    rewarded: (group, reward) => {
      view.rewarded(group, reward);
      tracking.rewarded(group, reward.kind === "rewarded" ? reward : {});
    },
    progress: (progress) => view.progress(progress),
    step: (line) => {
      view.step(line);
      tracking.step(line);
    },
    validation: (row) => {
      view.validation(row);
      tracking.validation(row);
    },
    log: (text) => view.log(text),
  };
}

/** Ends the trackers; after all steps they are also sent the adapters. */
export async function endTracking(tracking: Tracking, run: Run, steps: number): Promise<void> {
  const last = run.store.lastStep();
  const whole = last.step >= steps;
  const best = bestOf(run.store.validations())?.checkpoint ?? null;
  const of = new Map<number, string[]>();
  if (best !== null) of.set(best, ["best"]);
  // The last, since Weights & Biases calls that "latest" which it is sent last.
  if (last.checkpoint !== null) of.set(last.checkpoint, [...(of.get(last.checkpoint) ?? []), "final"]);
  const adapters = [...of].map(([step, aliases]) => ({
    step,
    folder: join(run.checkpoints.pathOf(step), "adapter"),
    file: run.checkpoints.adapterOf(step),
    aliases,
  }));
  await tracking.close(whole, whole ? adapters : []);
}
