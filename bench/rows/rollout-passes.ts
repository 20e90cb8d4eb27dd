/**
 * Splitting of the batches of whole email rollouts by llama.cpp, with a GPU's settings: passes over the weights for
 * each batch, and the share of passes that reused the graph of the previous one. These are counts, equal on a CPU and a
 * GPU; they do not measure speed.
 */
import { modelFile, trainedContext } from "../../src/engine/models.js";
import { describe, modelName } from "../measure.js";
import { playEmail, playerWith } from "../rollouts.js";
import type { Bench, Row } from "../row.js";

const GROUP = 8;

/**
 * Split: a buffer of KV for each sequence. A GPU's engine has a pool with steady shapes, or split KV without. At 256 a pool is
 * never the default, and slow to compute on a CPU.
 */
const works = [
  ...[8, 64].flatMap((sequences) => [
    { sequences, pooledKv: true, steadyShapes: true },
    { sequences, pooledKv: true, steadyShapes: false },
    { sequences, pooledKv: false, steadyShapes: true },
    { sequences, pooledKv: false, steadyShapes: false },
  ]),
  { sequences: 256, pooledKv: false, steadyShapes: false },
];

export const bench: Bench = {
  name: "rollout/passes",
  about: "counts with a GPU's settings: passes over the weights a batch, and llama.cpp's graphs that are kept",
  models: [],
  async run(context) {
    const model = context.model ?? modelFile("tiny");
    const contextPerSequence = Math.min(4096, await trainedContext(model));
    const rows: Row[] = [];
    for (const { sequences, ...shapes } of works) {
      if (context.sequences && !context.sequences.includes(sequences)) continue;
      const options = { model, sequences, contextPerSequence, lanes: 1, ...shapes };
      const engine = await context.load(options);
      try {
        const settings = { scenarios: (2 * sequences) / GROUP, groupSize: GROUP, concurrency: sequences, maxTurns: 10 };
        await playEmail(playerWith(engine, shapes), { ...settings, maxTokens: 256, step: 0 });
        const { batches, passes, graphsReused } = engine.stats();
        const name = `rollout/passes/${shapes.pooledKv ? "pooled" : "split"}${shapes.steadyShapes ? "" : "-any-shape"}`;
        const none = { theirs: null, ratio: null } as const;
        const row = { model: modelName(model), sequences, ...none, note: `${passes} passes of ${batches} batches` };
        rows.push({ ...row, name, ours: passes / batches, unit: "passes", target: "at most 1.1" });
        rows.push({ ...row, name: `${name}/graphs-kept`, ours: graphsReused / passes, unit: "share", target: "" });
        for (const one of rows.slice(-2)) context.log(describe(one));
      } finally {
        await engine.close();
      }
    }
    return rows;
  },
};
