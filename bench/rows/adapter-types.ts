/** An adapter's tensors in f16 and bf16 against f32: decode speed, and how far its log-probabilities move. */
import type { Engine } from "../../src/engine/index.js";
import { adapterRows } from "../adapter-rows.js";
import { randomTokens } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench } from "../row.js";

const name = "adapter-types";
/** Number of tokens whose log-probabilities are compared. */
const SCORED = 256;

/** Mean |Δ| of the log-probabilities of random tokens. */
async function gap(engine: Engine, one: string, other: string | null): Promise<string> {
  const tokens = randomTokens(engine, SCORED + 1, 1);
  await engine.useAdapter(one);
  const first = await engine.score(tokens);
  await engine.useAdapter(other);
  const second = await engine.score(tokens);
  const sum = first.reduce((total, value, i) => total + Math.abs(value - (second[i] as number)), 0);
  return (sum / first.length).toExponential(1);
}

export const bench: Bench = {
  name,
  about: "decode speed with an adapter of rank 16 in f16 and bf16, over that in f32",
  models: ["0.5b"],
  run(context) {
    const f32 = modelPath("qwen2-0.5b-shape-adapter-r16.gguf");
    const pairs = ["f16", "bf16"].map((type) => {
      const ours = modelPath(`qwen2-0.5b-shape-adapter-r16-${type}.gguf`);
      const note = async (engine: Engine) =>
        `ours: ${type}; theirs: f32. Mean |Δ| of log-probabilities ${await gap(engine, ours, f32)} nats; the adapter moves them by ${await gap(engine, f32, null)}`;
      return { title: `rank 16 ${type}`, ours, theirs: f32, note };
    });
    return adapterRows(context, name, pairs);
  },
};
