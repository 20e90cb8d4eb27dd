/** Activating a new adapter, as after every training step: each time from another file, and the old one is freed. */
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, median, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, Row } from "../row.js";

const SWAPS = 20;

export const bench: Bench = {
  name: "adapter-swap",
  about: "milliseconds to put a new adapter of rank 16 on the model",
  models: ["0.5b"],
  async run(context) {
    const model = modelPath("qwen2-0.5b-shape-f16.gguf");
    const adapter = modelPath("qwen2-0.5b-shape-adapter-r16.gguf");
    const folder = mkdtempSync(join(tmpdir(), "hone-bench-"));
    const engine = await context.load({ model, sequences: 8, contextPerSequence: 512 });
    try {
      const times: number[] = [];
      for (let i = 0; i < SWAPS; i++) {
        // The engine identifies an adapter by its path, so a new version needs a new path.
        const version = join(folder, `${i}.gguf`);
        copyFileSync(adapter, version);
        const start = performance.now();
        await engine.useAdapter(version);
        times.push(performance.now() - start);
        rmSync(version);
      }
      const row: Row = {
        name: "adapter-swap",
        model: `${modelName(model)} rank 16`,
        sequences: null,
        ours: median(times),
        theirs: null,
        ratio: null,
        unit: "ms",
        target: "at most 50 ms",
        note: `median of ${SWAPS} swaps, slowest ${Math.max(...times).toFixed(1)} ms`,
      };
      context.log(describe(row));
      return [row];
    } finally {
      await engine.close();
      rmSync(folder, { recursive: true });
    }
  },
};
