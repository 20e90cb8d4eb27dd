/** Imitation, as `hone sft` does it and a program asks for it. What computes it is loaded with the first call. */
import type { SftChoice, SftOptions, SftSummary } from "./sft-options.js";

/**
 * Trains an adapter (or, with `fullWeights`, all weights) to write what the model wrote in the rollouts of `file`. The result
 * is in the folder `out`; an adapter is a checkpoint that a run can be forked from.
 *
 * @throws UsageError when an option is wrong, or the template shows no tool calls
 * @throws HoneError when the model cannot be trained, or it is interrupted: an earlier result in `out` stays
 */
export async function sft(options: SftOptions, choice: SftChoice = {}): Promise<SftSummary> {
  const { imitate } = await import("./imitate.js");
  return await imitate(options, choice);
}
