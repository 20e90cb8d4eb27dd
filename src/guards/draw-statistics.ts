/**
 * Whether the engine draws tokens with the probabilities that it records. Of each draw the engine measures -log p of the token less
 * the entropy of the distribution: its expected value is 0 whatever the distribution is, and its variance is known. So the sums over
 * all draws of a run are a martingale, and stay within a bound that holds at all steps together: the normal mixture of Robbins (1970,
 * "Statistical methods related to the law of the iterated logarithm"; Howard et al. 2021, arXiv 1810.08240, equation 14).
 * Conditioning on outcomes would spoil that: it is counted over all rollouts that were played, not over the batch.
 */
import { addDraws } from "../core/engine/evaluated.js";
import type { DrawStatistics } from "../core/engine/sequence.js";
import { HoneError } from "../core/util/errors.js";

/** Of a false alarm in a whole run, whatever its length. */
const ALARM = 1e-6;
/** Variance, in squared nats, at which the bound is nearest to that of a test made once: some 10,000 draws. */
const INTRINSIC = 300;

/** How far the sum of the deviations may be from 0 at this variance, in nats. */
export function drawsBound(variance: number): number {
  const scale = variance + INTRINSIC;
  return Math.sqrt(scale * (Math.log(scale / INTRINSIC) + 2 * Math.log(1 / ALARM)));
}

/**
 * @param steps of the run's steps so far; null where nothing was measured
 * @param now of the rollouts that were just played
 * @throws HoneError when they are not drawn with their probabilities
 */
export function checkDrawStatistics(steps: readonly (DrawStatistics | null)[], now: DrawStatistics | null): void {
  if (!now) return;
  const all = steps.reduce<DrawStatistics>((sum, one) => (one ? addDraws(one, sum) : sum), now);
  const bound = drawsBound(all.variance);
  if (Math.abs(all.deviation) <= bound) return;
  const { tokens, deviation } = all;
  throw new HoneError(
    `tokens are not drawn with the probabilities that are recorded: over ${tokens} draws of this run unlikely ones come too ${deviation < 0 ? "seldom" : "often"} (by ${Math.abs(deviation).toFixed(1)} nats; beyond ${bound.toFixed(1)} by chance in at most one of ${1 / ALARM} runs); the step was not taken.\nThe same command plays it again`,
  );
}
