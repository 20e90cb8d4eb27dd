/**
 * The training loop: one step after the other (step.ts), or with `--staleness` played ahead (overlap.ts), with regular validations;
 * old checkpoints are deleted.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { StepRow } from "../core/run/records.js";
import { STORE_FILE } from "../core/run/run.js";
import { pruneCheckpoints } from "../core/train/earlier.js";
import type { LoopParts } from "../core/train/parts.js";
import { isDue, validateHeldOut } from "../core/train/saved-play.js";
import { settlePending, use, wakePending } from "../core/train/settle.js";
import { stagesOf } from "../core/train/stages.js";
import { trainStep } from "../core/train/step.js";
import { StepClock } from "../core/train/step-clock.js";
import { HoneError } from "../core/util/errors.js";

/**
 * Makes the steps that are left, one after the other, and gives each once it is settled and, where that is due, validated. The
 * learner loads while the first rollouts are played.
 *
 * @throws HoneError when the run cannot continue; all finished steps are kept
 */
export async function* trainSteps(parts: LoopParts): AsyncGenerator<StepRow, void> {
  const { run, settings, updater } = parts;
  const at = run.store.lastStep();
  const steps = settings.staleness > 0 ? (await import("./overlap.js")).stepsAhead : stepsInTurn;
  if (at.step >= settings.steps) return yield* steps(parts);
  const refused = new AbortController();
  updater.prepare(run.checkpointOf(at)).catch((error: unknown) => refused.abort(error));
  try {
    yield* steps({ ...parts, signal: AbortSignal.any([parts.signal, refused.signal]) });
  } catch (error) {
    // The refusal interrupted the rollouts: it is the error to report.
    refused.signal.throwIfAborted();
    if (existsSync(join(run.folder, STORE_FILE))) throw error;
    throw new HoneError(`${run.folder} was removed or moved while it was trained; bring it back to go on`, {
      cause: error,
    });
  }
}

async function* stepsInTurn(parts: LoopParts): AsyncGenerator<StepRow, void> {
  const { run, settings } = parts;
  const clock = new StepClock();
  const useAfter = (row: StepRow) => clock.measure("swap", () => use(parts, row));
  await wakePending(parts);
  // One that was committed before may be settled now.
  let isNew = run.store.unsettledStep() !== undefined;
  let at = await settlePending(parts, clock);
  for (;;) {
    if (at.step === 1 && run.store.validations().length === 0) {
      // The start is validated after the first step: learning begins at once, and errors show early.
      const first = run.store.firstStep();
      await useAfter(first);
      await validateHeldOut(parts, first, clock);
    }
    await useAfter(at);
    if (isDue(settings, at.step)) await validateHeldOut(parts, at, clock);
    pruneCheckpoints(run, settings.keep);
    if (isNew) yield at;
    if (at.step >= settings.steps) return;
    at = await trainStep(stagesOf(parts, at, clock));
    isNew = true;
  }
}
