/** Decode speed with one adapter over that with another one, or without: rows for several numbers of sequences. */
import type { Engine } from "../src/engine/index.js";
import { compare, decodeLength, decodeSpeed, modelName } from "./measure.js";
import { modelPath } from "./models.js";
import type { BenchContext, Row } from "./row.js";

/** Files of adapters on the 0.5B shape; null: none. */
export interface AdapterPair {
  /** Added to the model's name. */
  readonly title: string;
  readonly ours: string;
  readonly theirs: string | null;
  /** Which is which, and other facts that are measured once. */
  note(engine: Engine): Promise<string>;
}

export async function adapterRows(context: BenchContext, name: string, pairs: readonly AdapterPair[]): Promise<Row[]> {
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
      for (const { title, ours, theirs, note } of pairs) {
        const about = { name, model: `${modelName(model)} ${title}`, sequences, unit: "tokens/s", target: "" } as const;
        const sides = { ours: speedWith(ours), theirs: speedWith(theirs) };
        rows.push(await compare(context, { ...about, note: await note(engine) }, "more", sides));
      }
    } finally {
      await engine.close();
    }
  }
  return rows;
}
