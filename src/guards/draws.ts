/**
 * Rollouts of a group differ by chance alone. Where several are the same, token for token, the probability of that follows from
 * the log-probabilities of their tokens: too small a one means that they were not drawn independently (one seed for all, or a
 * result that was given twice).
 */
import type { Trajectory } from "../core/rollout/trajectory.js";
import { HoneError } from "../core/util/errors.js";

/** Of a coincidence, in one group. With 100 groups a step a false alarm in 100,000 steps. */
const LEAST_PROBABILITY = 1e-7;

/** Natural logarithm of the number of ways to choose k of n. */
function logChoose(n: number, k: number): number {
  let sum = 0;
  for (let i = 1; i <= k; i++) sum += Math.log((n - k + i) / i);
  return sum;
}

/** The sampled tokens of a rollout, and the logarithm of their probability. */
function drawnIn({ tokens, branches = [] }: Trajectory): { readonly ids: string; readonly logprob: number } {
  const ids: number[] = [];
  let logprob = 0;
  for (const record of [tokens, ...branches.map((branch) => branch.tokens)]) {
    record?.ids.forEach((id, i) => {
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
 * @throws HoneError otherwise
 */
export function checkDraws(group: readonly Trajectory[]): void {
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
    throw new HoneError(
      `${count} of ${group.length} rollouts of the scenario ${first.scenario.id} drew the same tokens, of probability e^${logprob.toFixed(1)}: not independently (by chance at most once in e^${(-chance).toFixed(0)} groups); the step was not taken.\nThe same command plays it again`,
    );
  }
}
