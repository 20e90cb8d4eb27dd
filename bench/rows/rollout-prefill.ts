/** Prompt tokens evaluated by the engine, relative to the unique ones: a group's common prompt counts once. */
import { modelFile, trainedContext } from "../../src/engine/models.js";
import { uniquePromptTokens } from "../../src/insight/rollouts-file.js";
import { describe, modelName } from "../measure.js";
import { enginePlayer, playEmail } from "../rollouts.js";
import type { Bench, Row } from "../row.js";

export const bench: Bench = {
  name: "rollout/prefill",
  about: "evaluated prompt tokens over unique ones, in whole email rollouts",
  models: [],
  async run(context) {
    const model = context.model ?? modelFile("tiny");
    const sequences = context.sequences?.[0] ?? 16;
    const contextPerSequence = Math.min(4096, await trainedContext(model));
    const rows: Row[] = [];
    for (const groupSize of [4, 8]) {
      const engine = await context.load({ model, sequences, contextPerSequence });
      try {
        const settings = {
          scenarios: 128 / groupSize,
          groupSize,
          concurrency: sequences,
          maxTurns: 10,
          maxTokens: 256,
        };
        const { groups } = await playEmail(enginePlayer(engine), { ...settings, step: groupSize });
        const { prefilled, reused, evicted } = engine.stats();
        const unique = groups.reduce((sum, one) => sum + uniquePromptTokens(one), 0);
        const row: Row = {
          name: `rollout/prefill/group-${groupSize}`,
          model: modelName(model),
          sequences,
          ours: prefilled / unique,
          theirs: null,
          ratio: null,
          unit: "share",
          target: "at most 1.02",
          note: `${prefilled} evaluated, ${unique} unique, in ${groups.flat().length} rollouts; ${reused} taken from other sequences, ${evicted} sequences evicted`,
        };
        context.log(describe(row));
        rows.push(row);
      } finally {
        await engine.close();
      }
    }
    return rows;
  },
};
