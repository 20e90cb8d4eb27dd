/**
 * Which policy played a step: the learner measures on few of its tokens the slope of (engine - earlier policy) on
 * (current policy - earlier policy) of the log-probabilities (native/learner/played.py). It is 1 where the engine played the
 * current policy and 0 where it played the earlier one, whatever their distance; the error says whether the update can be
 * told from rounding. Where it cannot, the next steps are compared with the same earlier policy: changes add up. An engine
 * that lags by one update is most of the way between those two; so each step is compared with the policy of one update before
 * too, and these slopes are pooled.
 */
import type { StepMetrics } from "../core/learn/types.js";
import type { PolicySlope } from "../core/run/records.js";
import { type EarlierPolicy, type LastUpdates, whoPlayed } from "../core/train/earlier.js";
import type { Wrong } from "../core/train/guard.js";

const AGAIN = "the step was not taken.\nThe same command plays it again";

const named = (checkpoint: number | null) => (checkpoint === null ? "the base model" : `checkpoint ${checkpoint}`);

export const slopeText = ({ slope, error }: Pick<PolicySlope, "slope" | "error">) =>
  `${slope.toFixed(2)} ± ${error.toFixed(2)}`;

/**
 * Checks that the engine played the policy that the learner trains.
 * @param learnt `drift` is null unless the step was played ahead (--staleness)
 * @param current checkpoint of that policy
 * @returns what is wrong, when it played an earlier one: the step must not be committed then, nor its rollouts used again
 */
export function checkPolicySlope(
  { played, drift }: Pick<StepMetrics, "played" | "drift">,
  current: number | null,
  earlier: EarlierPolicy | undefined,
  lastUpdates: LastUpdates,
): Wrong {
  if (!played || !earlier) return undefined;
  if (whoPlayed(played) === "earlier") {
    return (
      `the engine played this step with an adapter older than ${named(current)}: the log-probabilities of its tokens follow ${named(earlier.checkpoint)} (slope ${slopeText(played)}, n=${played.tokens}; 1 is ${named(current)}, 0 is ${named(earlier.checkpoint)}); ` +
      AGAIN
    );
  }
  if (drift === null && whoPlayed(played) === "neither") {
    return `the engine played neither ${named(current)} nor ${named(earlier.checkpoint)} (slope ${slopeText(played)}, n=${played.tokens}; 1 is ${named(current)}, 0 is ${named(earlier.checkpoint)}): the learner trains another adapter than the one that played; ${AGAIN}`;
  }
  if (played.previous) lastUpdates.add(played.previous);
  const { pooled } = lastUpdates;
  if (!pooled || whoPlayed(pooled) !== "earlier") return undefined;
  return (
    `the engine lags behind the learner: over the last ${pooled.steps} steps it played the policies of one update before (slope ${slopeText(pooled)}, n=${pooled.tokens}; 1 is the learner's policy, 0 that of one update before); ` +
    AGAIN
  );
}
