/**
 * Rollouts of a group differ by chance alone. Where several are the same, token for token, the probability of that follows from
 * the log-probabilities of their tokens: too small a one means that they were not drawn independently (one seed for all, or a
 * result that was given twice).
 */

import { addDraws } from "../core/engine/evaluated.js";
import type { DrawStatistics } from "../core/engine/sequence.js";
import { recordsOf, type Trajectory } from "../core/rollout/trajectory.js";
import type { CreditedGroup } from "../core/train/credit.js";
import { demanding, type Guard, type Wrong } from "../core/train/guard.js";
import { deriveSeed, Random } from "../core/util/random.js";

/** Of a coincidence, in one group. With 100 groups a step a false alarm in 100,000 steps. */
const LEAST_PROBABILITY = 1e-7;

/** Natural logarithm of the number of ways to choose k of n. */
function logChoose(n: number, k: number): number {
  let sum = 0;
  for (let i = 1; i <= k; i++) sum += Math.log((n - k + i) / i);
  return sum;
}

/** The sampled tokens of a rollout, and the logarithm of their probability. */
function drawnIn(trajectory: Trajectory): { readonly ids: string; readonly logprob: number } {
  const ids: number[] = [];
  let logprob = 0;
  for (const record of recordsOf(trajectory)) {
    record.ids.forEach((id, i) => {
      if (record.sampled[i] !== 1) return;
      ids.push(id);
      logprob += record.logprobs[i] as number;
    });
  }
  return { ids: ids.join(), logprob };
}

/**
 * Checks that the rollouts of a group were drawn independently. The union bound: k of n rollouts have the same tokens of
 * probability p with a probability of at most C(n, k) p^(k - 1).
 * @returns what is wrong otherwise
 */
export function checkDraws(group: readonly Trajectory[]): Wrong {
  const alike = new Map<string, { readonly first: Trajectory; readonly logprob: number; count: number }>();
  for (const trajectory of group) {
    const { ids, logprob } = drawnIn(trajectory);
    if (ids === "") continue;
    const known = alike.get(ids);
    if (known) known.count++;
    else alike.set(ids, { first: trajectory, logprob, count: 1 });
  }
  for (const { first, logprob, count } of alike.values()) {
    if (count < 2) continue;
    const chance = (count - 1) * logprob + logChoose(group.length, count);
    if (chance >= Math.log(LEAST_PROBABILITY)) continue;
    return `${count} of ${group.length} rollouts of the scenario ${first.scenario.id} drew the same tokens, of probability e^${logprob.toFixed(1)}: not independently (by chance at most once in e^${(-chance).toFixed(0)} groups); the step was not taken.\nThe same command plays it again`;
  }
  return undefined;
}

// Whether the engine draws tokens with the probabilities that it records. Of each draw the engine measures -log p of the token less
// the entropy of the distribution: its expected value is 0 whatever the distribution is, and its variance is known. So the sums over
// all draws of a run are a martingale, and stay within a bound that holds at all steps together: the normal mixture of Robbins (1970,
// "Statistical methods related to the law of the iterated logarithm"; Howard et al. 2021, arXiv 1810.08240, equation 14).
// Conditioning on outcomes would spoil that: it is counted over all rollouts that were played, not over the batch.

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
 * @returns what is wrong, when they are not drawn with their probabilities
 */
export function checkDrawStatistics(steps: readonly (DrawStatistics | null)[], now: DrawStatistics | null): Wrong {
  if (!now) return undefined;
  const all = steps.reduce<DrawStatistics>((sum, one) => (one ? addDraws(one, sum) : sum), now);
  const bound = drawsBound(all.variance);
  if (Math.abs(all.deviation) <= bound) return undefined;
  const { tokens, deviation } = all;
  return `tokens are not drawn with the probabilities that are recorded: over ${tokens} draws of this run unlikely ones come too ${deviation < 0 ? "seldom" : "often"} (by ${Math.abs(deviation).toFixed(1)} nats; beyond ${bound.toFixed(1)} by chance in at most one of ${1 / ALARM} runs); the step was not taken.\nThe same command plays it again`;
}

// Every rollout has the seed of its own place: the same draws in several groups or steps teach less than they seem to.

/**
 * @param seedName the first of the names from which seeds are derived, then the step
 * @returns what is wrong, for a rollout with the seed of another place
 */
export function checkSeeds(group: readonly Trajectory[], seedName: string, step: number): Wrong {
  const other = group.find(({ scenario, index, seed }) => seed !== deriveSeed(seedName, step, scenario.id, index));
  if (other === undefined) return undefined;
  return `the rollout ${other.id} was drawn with the seed ${other.seed}, which is not that of its scenario, index and step; the step was not taken.\nThe same command plays it again`;
}

// Which scenarios a step plays follows from the seed and the step: each epoch deals the train split anew.

export interface Dealt {
  /** Ids of the train split, in the task's order. */
  readonly train: readonly string[];
  readonly groupsPerStep: number;
  readonly seed: number;
  /** Whether scenarios are left out by what came of them (--rest, --difficulty): then the order does not follow. */
  readonly chosen: boolean;
}

/** Of a step, counted from 1, by its place alone. */
function dealtTo(step: number, { train, groupsPerStep, seed }: Dealt): ReadonlySet<string> {
  // What does not fill a step is left out.
  const perEpoch = Math.floor(train.length / groupsPerStep);
  const epoch = Math.floor((step - 1) / perEpoch);
  const at = ((step - 1) % perEpoch) * groupsPerStep;
  const order = new Random("epoch", seed, epoch).shuffle(train);
  return new Set(order.slice(at, at + groupsPerStep));
}

/**
 * @param groups of the step: first its own, then those that were played in place of others (--refill)
 * @returns what is wrong, where they are of other scenarios
 */
export function checkScenarios(step: number, groups: readonly CreditedGroup[], dealt: Dealt): Wrong {
  // Of a group whose rollouts all failed nothing is there.
  const played = groups.map(({ members, brokenOff }) => (members[0]?.trajectory ?? brokenOff[0])?.scenario.id);
  const own = dealt.chosen ? undefined : dealtTo(step, dealt);
  const train = new Set(dealt.train);
  const seen = new Set<string>();
  for (const [number, id] of played.entries()) {
    if (id === undefined) continue;
    const again = seen.has(id);
    seen.add(id);
    const isOwn = number < dealt.groupsPerStep;
    const wrong = again
      ? `the scenario ${id} twice`
      : !train.has(id)
        ? `the scenario ${id}, which is not of the train split`
        : own && own.has(id) !== isOwn
          ? `the scenario ${id}, which the seed ${isOwn ? "deals to another step" : "has dealt to it already"}`
          : undefined;
    if (wrong === undefined) continue;
    return `step ${step} played ${wrong}; the step was not taken.\nThe same command plays it again with the scenarios of its place`;
  }
  return undefined;
}

/** @param dealt undefined where a program chooses what is played */
export const scenariosGuard = (dealt: Dealt | undefined): Guard => ({
  name: "scenarios by a second path",
  sees: "a step that plays the scenarios of another step or epoch, one of them twice, or one that is held out",
  beforeUpdate: ({ groups, steps }) =>
    dealt && demanding("drop these rollouts", () => checkScenarios((steps.at(-1)?.step ?? -1) + 1, groups, dealt)),
});
