/** A batch file of one group of random tokens that the model "played" with equal probabilities. */
import { writeBatch } from "../src/core/learn/batch.js";
import { Random } from "../src/core/util/random.js";
import type { RowLayout } from "../src/machine/plan/activations.js";

/** One group for each layout: a prompt that all share, and a completion of each. */
export async function writeRandomBatch(file: string, layouts: readonly RowLayout[], vocabulary: number): Promise<void> {
  const random = new Random("random-batch", layouts.length, layouts[0]?.prompt ?? 0);
  const ids = (count: number) => Array.from({ length: count }, () => random.integer(0, vocabulary - 1));
  const groups = layouts.map(({ prompt, completions }) => {
    const shared = ids(prompt);
    return completions.map((own, member) => {
      const sampled = Array.from({ length: prompt + own }, (_, i) => (i < prompt ? 0 : 1));
      const logprobs = sampled.map((flag) => -flag * Math.log(vocabulary));
      return { advantage: member % 2 ? 1 : -1, tokens: { ids: [...shared, ...ids(own)], sampled, logprobs } };
    });
  });
  await writeBatch(file, groups, { temperature: 1 });
}
