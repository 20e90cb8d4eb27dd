/**
 * Decoding against llama.cpp's llama-batched-bench with the same libraries, threads, batch sizes, context and kind of
 * attention. Ours samples and returns log-probabilities; theirs feeds random tokens and reads no logits.
 */
import { batchedBench } from "../batched-bench.js";
import { buildLlamaTool } from "../llama-tools.js";
import { compare, decodeLength, decodeSpeed, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, Row } from "../row.js";

const name = "decode/llama-batched-bench";

export const bench: Bench = {
  name,
  about: "decode speed against llama-batched-bench on the same libraries, 1 to 32 sequences",
  models: ["tiny", "0.5b"],
  async run(context) {
    const models = context.model
      ? [context.model]
      : [modelPath("qwen2-0.5b-shape-f16.gguf"), modelPath("qwen2-tiny-f16.gguf")];
    const rows: Row[] = [];
    for (const model of models) {
      const counts = context.sequences ?? [1, 2, 4, 8, 16, 32];
      for (const sequences of counts) {
        const engine = await context.load({ model, sequences, contextPerSequence: 512 });
        try {
          const length = decodeLength(engine);
          const tool = await buildLlamaTool("llama-batched-bench", context.log);
          // Small models would finish too soon for a measurement.
          const tokens = engine.info.parameters < 5e7 ? 400 : length.tokens;
          const settings = { sequences, prompt: Math.min(length.prompt, 64), tokens };
          const target = "ratio >= 0.97";
          const row = { model: modelName(model), sequences, unit: "tokens/s" } as const;
          await decodeSpeed(engine, { ...settings, tokens: 4 });
          rows.push(
            await compare(context, { ...row, name, target }, "more", {
              ours: () => decodeSpeed(engine, settings),
              theirs: () => batchedBench(tool, engine, settings),
            }),
          );
        } finally {
          await engine.close();
        }
      }
    }
    return rows;
  },
};
