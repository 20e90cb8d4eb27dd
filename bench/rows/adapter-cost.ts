/** Cost of an unmerged adapter in decoding: rank 8, 16 or 32 on all linear layers, against no adapter. */
import { compare, decodeLength, decodeSpeed, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, Row } from "../row.js";

const name = "adapter-cost";

export const bench: Bench = {
  name,
  about: "decode speed with an adapter of rank 8, 16 and 32, over that without",
  models: ["0.5b"],
  run: async (context) => {
    const model = modelPath("qwen2-0.5b-shape-f16.gguf");
    const rows: Row[] = [];
    for (const sequences of context.sequences ?? [1, 16]) {
      const engine = await context.load({ model, sequences, contextPerSequence: 512 });
      try {
        const settings = { sequences, ...decodeLength(engine) };
        await decodeSpeed(engine, { ...settings, tokens: 4 });
        const speedWith = (adapter: string | null) => async () => {
          await engine.useAdapter(adapter);
          return decodeSpeed(engine, settings);
        };
        for (const rank of [8, 16, 32]) {
          const about = {
            name,
            model: `${modelName(model)} rank ${rank}`,
            sequences,
            unit: "tokens/s",
            target: "",
          } as const;
          const note = "ours: with the adapter; theirs: without";
          const ours = speedWith(modelPath(`qwen2-0.5b-shape-adapter-r${rank}.gguf`));
          rows.push(await compare(context, { ...about, note }, "more", { ours, theirs: speedWith(null) }));
        }
      } finally {
        await engine.close();
      }
    }
    return rows;
  },
};
