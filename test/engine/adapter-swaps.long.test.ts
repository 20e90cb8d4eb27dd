import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import { loadEngine } from "../../src/engine/index.js";

const SWAPS = 1000;
/** By then allocators have what they need. */
const WARM = 200;

it("keeps memory flat over 1,000 adapters, each of another file, with sequences in use", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-swaps-"));
  const adapter = modelPath("qwen2-tiny-adapter-2.gguf");
  const model = modelPath("qwen2-tiny-f16.gguf");
  const engine = await loadEngine({ model, gpu: false, threads: 1, sequences: 4, contextPerSequence: 256 });
  const megabytes: number[] = [];
  try {
    for (let swap = 1; swap <= SWAPS; swap++) {
      const version = join(folder, `${swap}.gguf`);
      copyFileSync(adapter, version);
      const [sequence] = engine.openGroup(Int32Array.of(1, 2, 3, 4), 1);
      if (!sequence) throw new Error("no sequence");
      // Some swaps find a turn under way.
      const turn = sequence.generate({ maxTokens: 4, sampling: { seed: swap }, stop: [] });
      await engine.useAdapter(version);
      await turn;
      sequence.close();
      rmSync(version);
      if (swap % 100 === 0) {
        globalThis.gc?.();
        megabytes.push(process.memoryUsage.rss() / 1e6);
      }
    }
  } finally {
    await engine.close();
    rmSync(folder, { recursive: true });
  }
  console.log(`resident memory after every 100 swaps, MB: ${megabytes.map((one) => one.toFixed(0)).join(" ")}`);
  const warm = megabytes[WARM / 100 - 1] as number;
  // One adapter has 0.6 MB: if only one in ten were kept, 800 of them would come to 48 MB.
  expect((megabytes.at(-1) as number) - warm).toBeLessThan(25);
});
