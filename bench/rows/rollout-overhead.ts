/** Share of a rollout's wall time in which llama.cpp is idle: tools, templates, messages between threads. */
import { describe, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import { enginePlayer, playEmail } from "../rollouts.js";
import type { Bench, Row } from "../row.js";

export const bench: Bench = {
  name: "rollout/overhead",
  about: "share of the wall time of whole rollouts with no decode running",
  models: ["0.5b"],
  async run(context) {
    const model = context.model ?? modelPath("qwen2-0.5b-shape-f16.gguf");
    const sequences = context.sequences?.[0] ?? 8;
    const engine = await context.load({ model, sequences, contextPerSequence: 2048 });
    try {
      const start = performance.now();
      const settings = { scenarios: 4, groupSize: 8, concurrency: sequences, maxTurns: 4, maxTokens: 64, step: 1 };
      const playing = playEmail(enginePlayer(engine), settings);
      // Measured from the end of the first batch.
      const firstBatch = await firstWork(() => engine.stats().batches > 0, playing);
      const before = engine.stats().seconds;
      const { seconds, groups } = await playing;
      const wall = (performance.now() - start) / 1000;
      const after = engine.stats().seconds;
      const starting = (firstBatch - start) / 1000;
      const idle = wall - starting - (after.decode - before.decode);
      const percent = (share: number) => `${(share * 100).toFixed(2)} %`;
      const row: Row = {
        name: "rollout/overhead",
        model: modelName(model),
        sequences,
        ours: idle / (wall - starting),
        theirs: null,
        ratio: null,
        unit: "share",
        target: "at most 0.03",
        note: `${groups.flat().length} rollouts in ${seconds.toFixed(0)} s; of that sampling ${percent((after.sampling - before.sampling) / wall)}, scheduling ${percent((after.scheduling - before.scheduling) / wall)}; starting the workers and the first batch took ${starting.toFixed(1)} s and are left out`,
      };
      context.log(describe(row));
      return [row];
    } finally {
      await engine.close();
    }
  },
};

/** Time of the engine's first batch, on the clock of `performance.now()`. */
async function firstWork(working: () => boolean, playing: Promise<unknown>): Promise<number> {
  let over = false;
  playing.then(
    () => (over = true),
    () => (over = true),
  );
  while (!working() && !over) await new Promise((resolve) => setTimeout(resolve, 2));
  return performance.now();
}
