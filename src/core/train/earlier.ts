/**
 * The earlier policy that may have played a step in place of the one that was to: which it is, how long its checkpoint is kept, and
 * what the slope of the engine's log-probabilities, from the learner's of one of the two to those of the other, says of who played
 * (policy-slope.ts of the guards).
 */
import { existsSync } from "node:fs";
import type { PolicySlope, StepRow } from "../run/records.js";
import type { Run } from "../run/run.js";
import { versionOf } from "./version.js";

/** Standard errors between the slope and 1/2, from which on it is decided. */
const SURE = 4;

export type WhoPlayed = "current" | "earlier" | "neither" | "undecided";

/**
 * Distance from 0 and 1 from which on an engine is known to play neither policy: half of an update, and twice the adapter, are at 0.5
 * from 1.
 */
const NEITHER = 0.25;

/** The learner's own rounding, which is in both policies and would move the slope towards 1/2, is taken out of it by the learner. */
export function whoPlayed({ slope, error }: Pick<PolicySlope, "slope" | "error">): WhoPlayed {
  const clear = SURE * error + NEITHER;
  if (Math.abs(slope - 1) > clear && Math.abs(slope) > clear) return "neither";
  if (slope + SURE * error < 0.5) return "earlier";
  return slope - SURE * error > 0.5 ? "current" : "undecided";
}

/**
 * Slopes from the policy of one update before, of the steps of this process since the last that was decided by itself. What a
 * process saw says nothing of the engine that the next one loads.
 */
export class LastUpdates {
  #slopes: PolicySlope[] = [];

  add(slope: PolicySlope): void {
    if (whoPlayed(slope) === "current") this.#slopes = [];
    else this.#slopes.push(slope);
  }

  /** Their mean, weighted by the inverse of their variance (Cochran 1954, "The combination of estimates"). */
  get pooled(): (PolicySlope & { readonly steps: number }) | undefined {
    if (this.#slopes.length === 0) return undefined;
    const weights = this.#slopes.map(({ error }) => 1 / error ** 2);
    const sum = weights.reduce((total, one) => total + one, 0);
    const weighted = this.#slopes.reduce((total, { slope }, i) => total + slope * (weights[i] as number), 0);
    return {
      slope: weighted / sum,
      error: 1 / Math.sqrt(sum),
      tokens: this.#slopes.reduce((total, { tokens }) => total + tokens, 0),
      steps: this.#slopes.length,
    };
  }
}

/** A policy of the run by its checkpoint; null is the base model. */
export interface EarlierPolicy {
  readonly checkpoint: number | null;
  /** The policy of one update before, where it is another one. */
  readonly previous?: number | null;
}

/**
 * The policy that the next step is compared with: the last that the engine was known to play, else the base model. An engine
 * that no longer follows plays that one, or one since then.
 * @param steps all so far, step 0 first
 * @param exists whether a checkpoint is still there
 * @param version step after which the policy stood that is to have played it
 * @returns undefined where that policy is the base model
 */
export function earlierThan(
  steps: readonly Pick<StepRow, "checkpoint" | "metrics">[],
  exists: (checkpoint: number) => boolean,
  version = steps.length - 1,
): EarlierPolicy | undefined {
  const current = steps[version]?.checkpoint ?? null;
  if (current === null) return undefined;
  const last = steps.findLast(({ metrics }) => metrics?.played && whoPlayed(metrics.played) === "current");
  const known = steps[last?.metrics?.version ?? -1]?.checkpoint ?? null;
  const checkpoint = known !== null && known !== current && exists(known) ? known : null;
  const before = steps.slice(0, version).findLast((row) => row.checkpoint !== current)?.checkpoint ?? null;
  if (before === checkpoint || (before !== null && !exists(before))) return { checkpoint };
  return { checkpoint, previous: before };
}

/** {@link earlierThan} of a run's next step. */
export const earlierOf = ({ store, checkpoints }: Run, staleness = 0): EarlierPolicy | undefined => {
  const steps = store.steps();
  const exists = (checkpoint: number) => existsSync(checkpoints.pathOf(checkpoint));
  return earlierThan(steps, exists, versionOf(steps.length, staleness));
};

/**
 * Deletes old checkpoints, but not those that the next step is compared with; and none that plays a step, or that such a one is
 * compared with, while steps are played ahead.
 */
export function pruneCheckpoints(run: Run, keep: number, staleness = 0): void {
  const { checkpoint = null, previous = null } = earlierOf(run, staleness) ?? {};
  run.prune(staleness === 0 ? keep : Math.max(keep, staleness + 3), [checkpoint, previous]);
}
