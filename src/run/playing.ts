/** Plays the scenarios of a step or a validation; each rollout is saved as it completes, and saved ones are not repeated. */
import { evaluate } from "../report/evaluation.js";
import type { Scenario } from "../task/task.js";
import { HoneError } from "../util/errors.js";
import type { Played, Policy, View } from "./parts.js";
import type { RolloutPhase, RunStore, StepRow, ValidationRow } from "./store.js";

export interface Playing {
  readonly store: RunStore;
  readonly policy: Policy;
  readonly view: View;
  readonly signal: AbortSignal;
  /** First of the names that seeds derive from. */
  readonly seed: number;
}

/** Stopped by the user: nothing is wrong, nothing is lost. */
export class Interrupted extends HoneError {
  constructor(step: number) {
    const where = step === 0 ? "before the first step" : `in step ${step}`;
    super(`interrupted ${where}; what was finished is kept, the same command goes on`);
  }
}

interface SavedPlay {
  readonly phase: RolloutPhase;
  readonly step: number;
  readonly scenarios: readonly Scenario[];
  readonly group: number;
  /** SHA-256 of the adapter in use. */
  readonly adapter: string | null;
}

/** @throws Interrupted when the signal came before everything was played */
export async function playSaved(
  { store, policy, view, signal, seed }: Playing,
  { phase, step, scenarios, group, adapter }: SavedPlay,
): Promise<Played & { reused: number }> {
  store.dropForeignRollouts(phase, step, adapter);
  const have = store.rollouts(phase, step);
  view.phase(step, phase === "train" ? "rollouts" : "validation", scenarios.length * group);
  for (const trajectory of have) view.rollout(trajectory);
  const played = await policy.play({
    // Every validation draws the same numbers, so that two of them differ by their policy alone.
    run: `${seed}/${phase}`,
    step: phase === "train" ? step : 0,
    scenarios,
    group,
    have,
    signal,
    onTrajectory: (trajectory) => {
      store.saveRollout(phase, step, trajectory);
      view.rollout(trajectory);
    },
  });
  if (played.interrupted) throw new Interrupted(step);
  return { ...played, reused: have.length };
}

/** Plays the validation scenarios with the adapter in force, unless this step has been validated before. */
export async function validate(playing: Playing, at: StepRow, scenarios: readonly Scenario[]): Promise<ValidationRow> {
  const { store, view } = playing;
  const before = store.validations().find(({ step }) => step === at.step);
  if (before) return before;
  const started = performance.now();
  const { step, checkpoint, adapter } = at;
  const { groups, failures } = await playSaved(playing, { phase: "validation", step, scenarios, group: 1, adapter });
  const row = {
    step,
    checkpoint,
    result: evaluate(groups.flat(), failures.length),
    seconds: (performance.now() - started) / 1000,
  };
  store.commitValidation(row);
  view.validation(row);
  return row;
}
