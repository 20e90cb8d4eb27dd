/**
 * Which policy plays a step. With `--staleness N` step k is played by the policy after step k - 1 - N, whatever the timing: N = 0
 * is the policy that step k trains. As in prime-rl, whose inference is one step behind the trainer (docs.primeintellect.ai,
 * "Algorithms"); AReaL (Fu et al. 2025, arXiv 2505.24298) bounds the distance by the same number (max_head_offpolicyness), and lets
 * it vary below that.
 */
import type { StepRow } from "../run/records.js";

/** The step after which the policy stood that plays step `step`, which counts from 1. */
export const versionOf = (step: number, staleness: number): number => Math.max(0, step - 1 - staleness);

/** The steps that the policy after step `version` plays, in their order: the start's plays all that nothing is learnt for. */
export function stepsPlayedBy(version: number, staleness: number, steps: number): number[] {
  const last = version + 1 + staleness;
  const first = version === 0 ? 1 : last;
  return Array.from({ length: Math.max(0, Math.min(last, steps) - first + 1) }, (_, i) => first + i);
}

/**
 * How many policies were in force between the one that played a step and the one that it trained, which counts: a step that
 * changed nothing has none of its own.
 * @param steps rows of the run up to the step before it, step 0 first
 * @param version row of the policy that played it
 */
export function policiesSince(steps: readonly Pick<StepRow, "step" | "checkpoint">[], version: number): number {
  return new Set(steps.filter(({ step }) => step >= version).map(({ checkpoint }) => checkpoint)).size - 1;
}
