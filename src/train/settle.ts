/**
 * From a committed update to a policy that is known to play it. The step is committed before the engine wakes, so that a
 * lack of memory cannot cost its update; until the engine has been checked to play the new adapter the step is not
 * settled. If the check fails, the commit is undone: repeating the step repairs a checkpoint whose own files are wrong.
 */
import { EngineOutOfMemory } from "../engine/errors.js";
import { learnerPart, numericsOf } from "../run/numerics.js";
import { metricsLine, mismatchesOf, type ProbeReading, type StepRow } from "../run/records.js";
import { HoneError } from "../util/errors.js";
import { checkProgress, taught } from "./guards.js";
import { checkProbe, probeLimit } from "./mismatch.js";
import type { LoopParts } from "./parts.js";
import type { StepClock } from "./step-clock.js";

const TAKEN_BACK = "the step was taken back";

/** Wakes the policy, if it sleeps since the update, loads the adapter of a committed step, and settles the step. */
export async function wakeWith(parts: LoopParts, row: StepRow, clock: StepClock): Promise<StepRow> {
  const { run, settings, policy } = parts;
  const probe = await clock.measure("swap", async () => {
    try {
      if (!settings.apart) await policy.wake();
      // A step that changed nothing continues with an adapter that was checked before: there is nothing to take back.
      if (run.store.unsettledStep()) return await loadOrTakeBack(parts, row);
      return await loadChecked(parts, row, `step ${row.step}`, TAKEN_BACK);
    } catch (error) {
      throw withStepKept(error, row);
    }
  });
  const settled = finish(parts, row, probe, clock.lap());
  checkTaught(parts, row);
  return settled;
}

function checkTaught({ run }: LoopParts, row: StepRow): void {
  if (!row.metrics || taught(row.metrics)) return;
  const steps = run.store.steps().filter(({ step, metrics }) => step <= row.step && metrics);
  checkProgress(
    steps.flatMap(({ metrics }) => metrics ?? []),
    (count) => {
      const reward = run.store.onlyReward(steps.at(-count)?.step ?? row.step, row.step);
      return reward === undefined ? undefined : { reward, task: String(run.store.record()?.options.task) };
    },
  );
}

/**
 * Settles a step that an earlier process committed but did not settle. The policy is awake.
 * @returns the state of the run
 */
export async function settleLast(parts: LoopParts, clock: StepClock): Promise<StepRow> {
  const row = parts.run.store.unsettledStep();
  if (!row) return parts.run.store.lastStep();
  const probe = await clock.measure("swap", () => loadOrTakeBack(parts, row));
  return finish(parts, row, probe, row.timing?.seconds ?? {});
}

/**
 * Loads the adapter of the first committed step that is not settled into the policy, which is awake, and settles it.
 * @param seconds of the step, asked for when the adapter is loaded
 */
export async function settleNext(
  parts: LoopParts,
  row: StepRow,
  clock: StepClock,
  seconds: () => Record<string, number>,
): Promise<void> {
  const probe = await clock.measure("swap", () => loadOrTakeBack(parts, row));
  finish(parts, row, probe, seconds());
  checkTaught(parts, row);
}

/**
 * Loads the adapter in force after a settled step into the policy, which is awake.
 * @throws HoneError when the engine does not play it
 */
export async function use(parts: LoopParts, row: StepRow): Promise<void> {
  await loadChecked(parts, row, `checkpoint ${row.checkpoint}`, "nothing was played with it");
}

/** As {@link loadChecked}, for an unsettled step, which is taken back when the engine does not play its adapter. */
async function loadOrTakeBack(parts: LoopParts, row: StepRow): Promise<ProbeReading | null> {
  try {
    return await loadChecked(parts, row, `step ${row.step}`, TAKEN_BACK);
  } catch (error) {
    // A lack of memory is no evidence about the adapter.
    if (!(error instanceof EngineOutOfMemory)) parts.run.store.takeBackStep(row.step);
    throw error;
  }
}

/**
 * Loads the adapter in force after a step and scores its probe.
 * @param adapter its name, and `consequence`, for the error
 * @throws HoneError when the engine does not play it
 */
async function loadChecked(
  { run, settings, policy }: LoopParts,
  row: StepRow,
  adapter: string,
  consequence: string,
): Promise<ProbeReading | null> {
  await policy.use(run.adapterOf(row));
  const reading = await policy.probe();
  const steps = run.store.steps();
  // The learner's numerics of that time, and the engine's of now.
  const made = steps.find(({ step }) => step === row.checkpoint)?.timing;
  const numerics = numericsOf(settings.numerics.engine, made ? learnerPart(made.numerics) : null);
  checkProbe(reading, probeLimit(mismatchesOf(steps, numerics), settings), adapter, consequence);
  return reading;
}

/** A lack of memory costs no step, and the user is told so. */
function withStepKept(error: unknown, { step }: StepRow): unknown {
  if (!(error instanceof EngineOutOfMemory)) return error;
  const message = `${error.message}. Step ${step} is kept: the same command goes on after it`;
  return new HoneError(message, { cause: error });
}

function finish({ run, view }: LoopParts, row: StepRow, probe: ProbeReading | null, seconds: Record<string, number>) {
  const { metrics, timing } = row;
  const settled = { ...row, metrics: metrics && { ...metrics, probe }, timing: timing && { ...timing, seconds } };
  run.store.settleStep(settled);
  run.appendMetrics(metricsLine(settled));
  view.step(metricsLine(settled));
  return settled;
}
