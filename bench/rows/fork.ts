/** A group's common prompt evaluated once and copied, against evaluating it for every member. */
import type { Sequence } from "../../src/core/engine/sequence.js";
import { compare, modelName, randomTokens } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, Row } from "../row.js";

const PROMPT = 600;

/** Milliseconds until every sequence has its first token. */
async function firstTokens(open: () => Sequence[]): Promise<number> {
  const start = performance.now();
  const sequences = open();
  try {
    await Promise.all(sequences.map((one, seed) => one.generate({ maxTokens: 1, sampling: { seed }, stop: [] })));
    return performance.now() - start;
  } finally {
    for (const sequence of sequences) sequence.close();
  }
}

export const bench: Bench = {
  name: "fork",
  about: `a prompt of ${PROMPT} tokens for 8 sequences, against evaluating it 8 times`,
  models: ["0.5b"],
  async run(context) {
    const model = context.model ?? modelPath("qwen2-0.5b-shape-f16.gguf");
    const rows: Row[] = [];
    for (const sequences of context.sequences ?? [8]) {
      const engine = await context.load({ model, sequences, contextPerSequence: PROMPT + 64 });
      try {
        // Every prompt is new, so that no cache contains it.
        let seed = 0;
        const prompt = () => randomTokens(engine, PROMPT, seed++);
        await firstTokens(() => [engine.open(prompt())]);
        const row = { name: "fork", model: modelName(model), sequences, unit: "ms", target: "ratio >= 5" } as const;
        rows.push(
          await compare(context, row, "less", {
            ours: () => firstTokens(() => engine.openGroup(prompt(), sequences)),
            theirs: () => firstTokens(() => Array.from({ length: sequences }, () => engine.open(prompt()))),
          }),
        );
      } finally {
        await engine.close();
      }
    }
    return rows;
  },
};
