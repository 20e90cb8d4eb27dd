/** The training loop: steps one after the other (step.ts), validated now and then, old checkpoints pruned. */
import { gapsOf, type StepRow } from "../run/index.js";
import { checkProbe, gapLimits } from "./gap.js";
import type { LoopParts } from "./parts.js";
import { playingOf, validate } from "./playing.js";
import { stagesOf } from "./stages.js";
import { trainStep } from "./step.js";
import { StepClock } from "./step-clock.js";

/**
 * The learner loads while the first rollouts are played.
 *
 * @throws HoneError when the run cannot go on; all finished steps are kept
 */
export async function train(parts: LoopParts): Promise<void> {
  const { run, settings, updater } = parts;
  const at = run.store.lastStep();
  if (at.step >= settings.steps) return trainSteps(parts, at);
  const refused = new AbortController();
  updater.prepare(run.checkpointOf(at)).catch((error: unknown) => refused.abort(error));
  try {
    await trainSteps({ ...parts, signal: AbortSignal.any([parts.signal, refused.signal]) }, at);
  } catch (error) {
    // What was played meanwhile was interrupted by it.
    refused.signal.throwIfAborted();
    throw error;
  }
}

async function trainSteps(parts: LoopParts, start: StepRow): Promise<void> {
  const { run, settings, scenarios, policy } = parts;
  const heldOut = scenarios.ofValidation(settings.validateN);
  const due = (step: number) =>
    step === settings.steps || (step > 0 && settings.validateEvery > 0 && step % settings.validateEvery === 0);

  let at = start;
  const clock = new StepClock();
  const use = (row: StepRow) =>
    clock.measure("swap", async () => {
      const reading = await policy.use(run.adapterOf(row));
      const limits = gapLimits(gapsOf(run.store.steps(), settings.numerics), settings);
      checkProbe(reading, limits.mean, `checkpoint ${row.checkpoint}`, "nothing was played with it");
    });
  const validateAt = (row: StepRow) =>
    clock.measure("validation", () => validate(playingOf(parts), row, heldOut, parts.grade));
  for (;;) {
    if (at.step === 1 && run.store.validations().length === 0) {
      // The start is validated when a step has been done: learning begins at once, and what is wrong shows early.
      const first = run.store.firstStep();
      await use(first);
      await validateAt(first);
    }
    await use(at);
    if (due(at.step)) await validateAt(at);
    run.prune(settings.keep);
    if (at.step >= settings.steps) return;
    at = await trainStep(stagesOf(parts, at, clock));
  }
}
