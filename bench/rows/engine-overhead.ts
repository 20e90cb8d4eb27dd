/** Share of a busy engine's time outside of llama.cpp: sampling with log-probabilities, and scheduling. */
import { decodeLength, decodeSpeed, describe, median, modelName, shares } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, Row } from "../row.js";

export const bench: Bench = {
  name: "engine-overhead",
  about: "share of a busy batch's time outside llama_decode",
  models: ["0.5b"],
  async run(context) {
    const model = context.model ?? modelPath("qwen2-0.5b-shape-f16.gguf");
    const rows: Row[] = [];
    for (const sequences of context.sequences ?? [1, 16, 32]) {
      const engine = await context.load({ model, sequences, contextPerSequence: 512 });
      try {
        const settings = { sequences, ...decodeLength(engine) };
        const measured: ReturnType<typeof shares>[] = [];
        for (let round = 0; round < context.rounds; round++) {
          const before = engine.stats();
          await decodeSpeed(engine, settings);
          measured.push(shares(before, engine.stats()));
        }
        const percent = (value: number) => `${(value * 100).toFixed(2)} %`;
        const sampling = median(measured.map((one) => one.sampling));
        const scheduling = median(measured.map((one) => one.scheduling));
        const row: Row = {
          name: "engine-overhead",
          model: modelName(model),
          sequences,
          ours: median(measured.map((one) => one.sampling + one.scheduling)),
          theirs: null,
          ratio: null,
          unit: "share",
          target: "at most 0.03",
          note: `sampling ${percent(sampling)}, scheduling ${percent(scheduling)}; prompts included`,
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
