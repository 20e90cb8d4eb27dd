/** What a step's loss is a mean over, counted again by another way than credit.ts: group by group. */
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { CreditedGroup } from "../core/train/credit.js";
import { HoneError } from "../core/util/errors.js";

const tokensOf = ({ tokens, branches = [] }: Trajectory): number => {
  let count = 0;
  for (const record of [tokens, ...branches.map((branch) => branch.tokens)]) {
    for (const flag of record?.sampled ?? []) if (flag === 1) count++;
  }
  return count;
};

/**
 * @param further number of groups that were played in place of idle ones, the first of which then count as not played
 * @param mean as the learner is told
 * @throws HoneError where it is another
 */
export function checkMean(
  groups: readonly CreditedGroup[],
  further: number,
  mean: { readonly rollouts: number; readonly sampledTokens: number },
): void {
  let replaced = Math.max(0, further);
  let rollouts = 0;
  let sampledTokens = 0;
  for (const { members, trainable, tooFew, noVerdict } of groups) {
    if (!trainable) {
      if (tooFew || noVerdict !== null) continue;
      if (replaced > 0) {
        replaced--;
        continue;
      }
    }
    rollouts += members.length;
    for (const { trajectory, masked } of members) if (!masked) sampledTokens += tokensOf(trajectory);
  }
  if (rollouts === mean.rollouts && sampledTokens === mean.sampledTokens) return;
  throw new HoneError(
    `the loss would be a mean over ${mean.rollouts} rollouts and ${mean.sampledTokens} tokens, and the step has ${rollouts} and ${sampledTokens}; the step was not taken. The same command tries again`,
  );
}
