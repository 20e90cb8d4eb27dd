/**
 * Which policy played a step: the learner measures on few of its tokens the slope of (engine - earlier policy) on
 * (current policy - earlier policy) of the log-probabilities (native/learner/played.py). It is 1 where the engine played the
 * current policy and 0 where it played the earlier one, whatever their distance; the error says whether the update can be
 * told from rounding. Where it cannot, the next steps are compared with the same earlier policy: changes add up.
 */
import { existsSync } from "node:fs";
import type { StepMetrics } from "../learn/index.js";
import type { Run, StepRow } from "../run/index.js";
import { HoneError } from "../util/index.js";

/** Standard errors between the slope and 1/2, from which on it is decided. */
const SURE = 4;

type Slope = NonNullable<StepMetrics["played"]>;

export type Verdict = "current" | "earlier" | "undecided";

/** Rounding of the learner's own, which is in both policies, moves the slope towards 1/2: to no decision. */
export function verdictOf({ slope, error }: Pick<Slope, "slope" | "error">): Verdict {
  if (slope + SURE * error < 0.5) return "earlier";
  return slope - SURE * error > 0.5 ? "current" : "undecided";
}

/** A policy of the run by its checkpoint; null is the base model. */
export interface EarlierPolicy {
  readonly checkpoint: number | null;
}

/**
 * The policy that the next step is compared with: the last that the engine was known to play, else the base model. An engine
 * that no longer follows plays that one, or one since then.
 * @param steps all so far, step 0 first
 * @param exists whether a checkpoint is still there
 * @returns undefined where the policy is the base model
 */
export function earlierThan(
  steps: readonly Pick<StepRow, "checkpoint" | "metrics">[],
  exists: (checkpoint: number) => boolean,
): EarlierPolicy | undefined {
  const current = steps.at(-1)?.checkpoint ?? null;
  if (current === null) return undefined;
  const last = steps.findLastIndex(({ metrics }) => metrics?.played && verdictOf(metrics.played) === "current");
  // A step is played by the policy after the step before it.
  const known = steps[last - 1]?.checkpoint ?? null;
  return { checkpoint: known !== null && known !== current && exists(known) ? known : null };
}

/** {@link earlierThan} of a run's next step. */
export const earlierOf = ({ store, checkpoints }: Run): EarlierPolicy | undefined =>
  earlierThan(store.steps(), (checkpoint) => existsSync(checkpoints.pathOf(checkpoint)));

/** Deletes old checkpoints, but not the one that the next step is compared with. */
export function pruneCheckpoints(run: Run, keep: number): void {
  run.prune(keep, earlierOf(run)?.checkpoint);
}

const named = (checkpoint: number | null) => (checkpoint === null ? "the base model" : `checkpoint ${checkpoint}`);

export const slopeText = ({ slope, error }: Pick<Slope, "slope" | "error">) =>
  `${slope.toFixed(2)} ± ${error.toFixed(2)}`;

/** The engine played another policy than the learner trains: rollouts of the step must not be used again. */
export class PlayedByAnother extends HoneError {}

/**
 * Checks that the engine played the policy that the learner trains.
 * @param current checkpoint of that policy
 * @throws PlayedByAnother when it played the earlier one; the step must not be committed then
 */
export function checkPlayed(played: Slope | null, current: number | null, earlier: EarlierPolicy | undefined): void {
  if (!played || !earlier || verdictOf(played) !== "earlier") return;
  throw new PlayedByAnother(
    `the engine played this step with an adapter older than ${named(current)}: the log-probabilities of its tokens follow ${named(earlier.checkpoint)} (slope ${slopeText(played)}, n=${played.tokens}; 1 is ${named(current)}, 0 is ${named(earlier.checkpoint)}); ` +
      "the step was not taken. The same command plays it again",
  );
}
