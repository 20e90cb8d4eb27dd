/** Plays the scenarios of a step or a validation; each rollout is saved as it finishes, and saved ones are not repeated. */
import type { GradeRollout } from "../reward/reward.js";
import type { Trajectory } from "../rollout/trajectory.js";
import type { RolloutPhase, StepRow, ValidationRow } from "../run/records.js";
import type { Scenario } from "../task/task.js";
import { HoneError } from "../util/errors.js";
import { gradeOwn, playGraded } from "./grading.js";
import { type Acts, heed } from "./guard.js";
import type { LoopParts, LoopSettings, PlayResult } from "./parts.js";
import type { StepClock } from "./step-clock.js";

/** By which scenarios are played. */
export type PlayParts = Pick<LoopParts, "run" | "policy" | "view" | "signal" | "settings" | "guards">;

/** Stopped by the user; no error, and nothing is lost. */
export class Interrupted extends HoneError {
  constructor(phase: RolloutPhase, step: number) {
    const validated = step === 0 ? "the start" : `step ${step}`;
    const trained = step === 0 ? "while difficulty was measured" : `in step ${step}`;
    const where = phase === "train" ? trained : `in the validation of ${validated}`;
    super(`interrupted ${where}; what was finished is kept, the same command goes on`);
  }
}

interface SavedPlay {
  readonly phase: RolloutPhase;
  readonly step: number;
  readonly scenarios: readonly Scenario[];
  readonly groupSize: number;
  /** SHA-256 of the adapter in use. */
  readonly adapter: string | null;
  /** Called with every group as soon as it is complete. */
  readonly onGroup?: (group: readonly Trajectory[]) => void;
}

/** The first of the names from which seeds of rollouts are derived. */
const seedNameOf = (seed: number, phase: RolloutPhase) => `${seed}/${phase}`;

/** What guards may demand before a step is committed, and of a validation. */
export const actsBefore = (
  { run, view }: Pick<PlayParts, "run" | "view">,
  phase: RolloutPhase,
  step: number,
): Acts => ({
  note: (text) => view.log(text),
  dropRollouts: () => run.store.dropRollouts(phase, step),
  takeBack: () => undefined,
});

/** Asks the guards what they see in groups that were played. */
export async function lookAtPlay(
  parts: Omit<PlayParts, "policy" | "signal">,
  { phase, step, adapter }: Pick<SavedPlay, "phase" | "step" | "adapter">,
  groups: readonly (readonly Trajectory[])[],
): Promise<void> {
  const { seed, temperature } = parts.settings;
  const acts = actsBefore(parts, phase, step);
  const of = phase === "validation" ? 0 : step;
  const seen = { adapter, temperature, seedName: seedNameOf(seed, phase), step: of };
  for (const group of groups) await heed(parts.guards, "afterPlay", { group, ...seen }, acts);
}

/** @throws Interrupted when the signal came before everything was played */
export async function playSaved(
  { run: { store }, settings: { seed }, policy, view, signal }: PlayParts,
  { phase, step, scenarios, groupSize, adapter, onGroup }: SavedPlay,
): Promise<PlayResult & { reused: number }> {
  store.dropForeignRollouts(phase, step, adapter);
  const asked = new Set(scenarios.map(({ id }) => id));
  const have = store.rollouts(phase, step).filter(({ scenario }) => asked.has(scenario.id));
  view.phase(step, phase === "train" ? "rollouts" : "validation", scenarios.length * groupSize);
  for (const trajectory of have) view.rollout(trajectory);
  const played = await policy.play({
    // Every validation uses the same seeds, so that two of them differ by their policy alone.
    seedName: seedNameOf(seed, phase),
    step: phase === "train" ? step : 0,
    scenarios,
    groupSize,
    have,
    signal,
    onTrajectory: (trajectory) => {
      store.saveRollout(phase, step, trajectory);
      view.rollout(trajectory);
    },
    ...(onGroup === undefined ? {} : { onGroup }),
  });
  if (played.interrupted) throw new Interrupted(phase, step);
  return { ...played, reused: have.length };
}

/** Whether the policy after a step is validated; the start's is too. */
export const isDue = ({ steps, validateEvery }: Pick<LoopSettings, "steps" | "validateEvery">, step: number): boolean =>
  step === steps || (step > 0 && validateEvery > 0 && step % validateEvery === 0);

/**
 * Plays the validation scenarios with the adapter in force, unless this step has been validated before.
 * @param grade decides whether an answer is right, where the task's own reward does not
 */
export async function validate(
  parts: PlayParts,
  at: StepRow,
  scenarios: readonly Scenario[],
  grade: GradeRollout = gradeOwn,
): Promise<ValidationRow> {
  const { view, signal } = parts;
  const { store } = parts.run;
  const before = store.validations().find(({ step }) => step === at.step);
  if (before) return before;
  const started = performance.now();
  const { step, checkpoint, adapter } = at;
  const asked = { phase: "validation", step, scenarios, groupSize: 1, adapter } as const;
  const result = await interruptible(signal, "validation", step, () =>
    playGraded(signal, grade, async (signal, onGroup) => {
      const played = await playSaved({ ...parts, signal }, { ...asked, onGroup });
      await lookAtPlay(parts, asked, played.groups);
      return played;
    }),
  );
  const row = {
    step,
    checkpoint,
    result,
    seconds: (performance.now() - started) / 1000,
  };
  store.commitValidation(row);
  view.validation(row);
  return row;
}

/** {@link validate} with the scenarios that the loop holds out; nothing without any. */
export async function validateHeldOut(parts: LoopParts, row: StepRow, clock: StepClock): Promise<void> {
  const heldOut = parts.scenarios.ofValidation(parts.settings.validateN);
  if (heldOut.length === 0) return;
  await clock.measure("validation", () => validate(parts, row, heldOut, parts.grade));
}

/** Runs work that the signal may end, which then counts as an interruption. */
export async function interruptible<T>(
  signal: AbortSignal,
  phase: RolloutPhase,
  step: number,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (signal.aborted) throw new Interrupted(phase, step);
    throw error;
  }
}
