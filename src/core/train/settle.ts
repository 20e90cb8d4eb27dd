/**
 * From a committed update to a policy that is known to play it. The step is committed before the engine wakes, so that a
 * lack of memory cannot cost its update; until the engine has been checked to play the new adapter the step is not
 * settled. If the check fails, the commit is undone: repeating the step repairs a checkpoint whose own files are wrong.
 */
import { EngineOutOfMemory } from "../engine/errors.js";
import { learnerPart, numericsOf } from "../run/numerics.js";
import { metricsLine, mismatchesOf, type ProbeReading, type StepRow } from "../run/records.js";
import { HoneError } from "../util/errors.js";
import { heed } from "./guard.js";
import type { LoopParts } from "./parts.js";
import type { ClockTiming, StepClock } from "./step-clock.js";

type Parts = Pick<LoopParts, "run" | "settings" | "policy" | "guards" | "view">;

const TAKEN_BACK = "the step was taken back";

/** Wakes the policy, if it sleeps since the update, loads the adapter of a committed step, and settles the step. */
export async function wakeWith(parts: Parts, row: StepRow, clock: StepClock): Promise<StepRow> {
  const { settings, policy } = parts;
  const probe = await clock.measure("swap", async () => {
    try {
      if (!settings.apart) await policy.wake();
      return await loadStep(parts, row);
    } catch (error) {
      throw withStepKept(error, row);
    }
  });
  const settled = finish(parts, row, probe, clock.lap());
  await lookAtProgress(parts, row);
  return settled;
}

async function lookAtProgress(parts: Parts, row: StepRow): Promise<void> {
  if (!row.metrics) return;
  const { store } = parts.run;
  const rows = store.steps().filter(({ step, metrics }) => step <= row.step && metrics);
  const steps = rows.flatMap(({ metrics }) => metrics ?? []);
  const onlyReward = (count: number) => {
    const reward = store.onlyReward(rows.at(-count)?.step ?? row.step, row.step);
    return reward === undefined ? undefined : { reward, task: String(store.record()?.options.task) };
  };
  await heed(parts.guards, "afterSettling", { steps, onlyReward }, actsAfter(parts));
}

/** What guards may demand once a step is committed. */
export const actsAfter = ({ run, view }: Parts, unsettled?: number) => ({
  note: (text: string) => view.log(text),
  dropRollouts: () => undefined,
  takeBack: () => {
    if (unsettled !== undefined) run.store.takeBackStep(unsettled);
  },
});

/**
 * Wakes the policy, if a step that failed has left it asleep.
 * @throws HoneError for a lack of memory, which costs no step that is committed and not settled
 */
export async function wakePending({ run, policy }: Parts): Promise<void> {
  try {
    await policy.wake();
  } catch (error) {
    const row = run.store.unsettledStep();
    throw row ? withStepKept(error, row) : error;
  }
}

/**
 * Settles the first step that was committed but not settled, by an earlier process or one that failed since; after it others may be
 * left, with --staleness. The policy is awake.
 * @returns that step, or the last one where none is left
 */
export async function settlePending(parts: Parts, clock: StepClock): Promise<StepRow> {
  const row = parts.run.store.unsettledStep();
  if (!row) return parts.run.store.lastStep();
  const probe = await clock.measure("swap", () => loadStep(parts, row));
  return finish(parts, row, probe);
}

/**
 * Loads the adapter of the first committed step that is not settled into the policy, which is awake, and settles it.
 * @param timing of the step, asked for when the adapter is loaded
 */
export async function settleNext(
  parts: Parts,
  row: StepRow,
  clock: StepClock,
  timing: () => ClockTiming | undefined,
): Promise<StepRow> {
  const probe = await clock.measure("swap", () => loadStep(parts, row));
  const settled = finish(parts, row, probe, timing());
  await lookAtProgress(parts, row);
  return settled;
}

/**
 * Loads the adapter in force after a settled step into the policy, which is awake.
 * @throws HoneError when the engine does not play it
 */
export async function use(parts: Parts, row: StepRow): Promise<void> {
  await loadChecked(parts, row, `checkpoint ${row.checkpoint}`, "nothing was played with it");
}

/**
 * As {@link loadChecked}, for a step that was just committed. One that changed nothing is settled: it goes on with an adapter that
 * was checked before, and there is nothing to take back.
 */
function loadStep(parts: Parts, row: StepRow): Promise<ProbeReading | null> {
  const unsettled = parts.run.store.unsettledStep() ? row.step : undefined;
  return loadChecked(parts, row, `step ${row.step}`, TAKEN_BACK, unsettled);
}

/**
 * Loads the adapter in force after a step and scores its probe.
 * @param adapter its name, and `consequence`, for the error
 * @param unsettled the step that is taken back when a guard demands it
 * @throws HoneError when the engine does not play it
 */
async function loadChecked(
  parts: Parts,
  row: StepRow,
  adapter: string,
  consequence: string,
  unsettled?: number,
): Promise<ProbeReading | null> {
  const { run, settings, policy } = parts;
  const load = async () => {
    await policy.use(run.adapterOf(row));
    return await policy.probe();
  };
  const loaded = await load().then(
    (reading) => ({ reading }),
    (error: unknown) => ({ error }),
  );
  const steps = run.store.steps();
  // The learner's numerics of that time, and the engine's of now.
  const made = steps.find(({ step }) => step === row.checkpoint)?.timing;
  const numerics = numericsOf(settings.numerics.engine, made ? learnerPart(made.numerics) : null);
  const seen = { loaded, settings, before: mismatchesOf(steps, numerics), adapter, consequence };
  await heed(parts.guards, "afterWaking", seen, actsAfter(parts, unsettled));
  // Whatever the guards say of it.
  if ("error" in loaded) throw loaded.error;
  return loaded.reading;
}

/** A lack of memory costs no step, and the user is told so. */
function withStepKept(error: unknown, { step }: StepRow): unknown {
  if (!(error instanceof EngineOutOfMemory)) return error;
  const message = `${error.message}. Step ${step} is kept: the same command goes on after it`;
  return new HoneError(message, { cause: error });
}

/** @param now by default the step's timing is that of its commit */
function finish({ run, view }: Parts, row: StepRow, probe: ProbeReading | null, now?: ClockTiming) {
  const { metrics, timing } = row;
  const settled = { ...row, metrics: metrics && { ...metrics, probe }, timing: timing && { ...timing, ...now } };
  run.store.settleStep(settled);
  run.appendMetrics(metricsLine(settled));
  view.step(metricsLine(settled));
  return settled;
}
