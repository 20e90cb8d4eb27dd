import { expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import { loadEngine } from "../../src/engine/factory.js";
import { changesAdapter } from "./behaviours.js";

const SWAPS = 1000;
/** By then allocators have what they need. */
const WARM = 200;

it("keeps memory flat over 1,000 adapters, each of another file, with sequences in use", async () => {
  const model = modelPath("qwen2-tiny-f16.gguf");
  const engine = await loadEngine({ model, gpu: false, threads: 1, sequences: 4, contextPerSequence: 256 });
  const megabytes: number[] = [];
  try {
    await changesAdapter(engine, modelPath("qwen2-tiny-adapter-2.gguf"), SWAPS, (swap) => {
      if (swap % 100 !== 0) return;
      globalThis.gc?.();
      megabytes.push(process.memoryUsage.rss() / 1e6);
    });
  } finally {
    await engine.close();
  }
  console.log(`resident memory after every 100 swaps, MB: ${megabytes.map((one) => one.toFixed(0)).join(" ")}`);
  const warm = megabytes[WARM / 100 - 1] as number;
  // One adapter has 0.6 MB: if only one in ten were kept, 800 of them would come to 48 MB.
  expect((megabytes.at(-1) as number) - warm).toBeLessThan(25);
});
