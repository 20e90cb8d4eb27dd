/** The real llama-batched-bench, compiled here, on the CPU. */
import { describe, expect, it } from "vitest";
import { batchedBench } from "../../bench/batched-bench.js";
import { buildLlamaTool, needDevice } from "../../bench/llama-tools.js";
import { loadEngine } from "../../src/engine/factory.js";
import { modelFile } from "../../src/engine/models.js";

const here = process.platform === "linux";
const lack = here ? "" : " (skipped: the tools are built from libraries found in /proc)";

describe.skipIf(!here)(`llama-batched-bench itself${lack}`, () => {
  it("measures beside an engine on the CPU, and is refused beside one on a card", async () => {
    const model = modelFile("tiny");
    const engine = await loadEngine({ model, gpu: false, threads: 1, sequences: 2, contextPerSequence: 64 });
    try {
      const settings = { sequences: 2, prompt: 16, tokens: 8 };
      const tool = await buildLlamaTool("llama-batched-bench", () => undefined);
      expect(await batchedBench(tool, engine, settings)).toBeGreaterThan(0);
      const { info } = engine;
      const compute = { ...info.compute, device: "NVIDIA One", offloadedLayers: info.compute.layers };
      const onCard = { info: { ...info, gpu: "cuda" as const, compute } };
      const why = /computes on the CPU, and the engine on NVIDIA One/;
      await expect(batchedBench(tool, onCard, settings)).rejects.toThrow(why);
      await expect(needDevice(tool, onCard)).rejects.toThrow(why);
    } finally {
      await engine.close();
    }
  });
});
