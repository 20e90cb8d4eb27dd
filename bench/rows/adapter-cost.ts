/** Cost of an unmerged adapter in decoding: rank 8, 16 or 32 on all linear layers, against no adapter. */
import { compare, decodeLength, decodeSpeed, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, Row } from "../row.js";

export const bench: Bench = {
  name: "adapter-cost",
  about: "decode speed with an adapter of rank 8, 16 and 32, over that without",
  models: ["0.5b"],
  async run(context) {
    const model = modelPath("qwen2-0.5b-shape-f16.gguf");
    const rows: Row[] = [];
    for (const sequences of context.sequences ?? [1, 16]) {
      const engine = await context.load({ model, sequences, contextPerSequence: 512 });
      try {
        const settings = { sequences, ...decodeLength(engine) };
        await decodeSpeed(engine, { ...settings, tokens: 4 });
        for (const rank of [8, 16, 32]) {
          const adapter = modelPath(`qwen2-0.5b-shape-adapter-r${rank}.gguf`);
          const about = { name: "adapter-cost", model: `${modelName(model)} rank ${rank}`, sequences } as const;
          const row = {
            ...about,
            unit: "tokens/s",
            target: "",
            note: "ours: with the adapter; theirs: without",
          } as const;
          rows.push(
            await compare(context, row, "more", {
              ours: async () => {
                await engine.useAdapter(adapter);
                return decodeSpeed(engine, settings);
              },
              theirs: async () => {
                await engine.useAdapter(null);
                return decodeSpeed(engine, settings);
              },
            }),
          );
        }
      } finally {
        await engine.close();
      }
    }
    return rows;
  },
};
