/** What the engine says of itself: what computes, what memory it took, how many sequences it can have. */
import { describe, expect, it } from "vitest";
import { openAddon } from "../../src/engine/addon.js";
import { modelFile } from "../../src/engine/models.js";
import { usableCores } from "../../src/engine/threads.js";
import { mismatchLimit } from "../../src/guards/mismatch.js";
import { MOST_SEQUENCES } from "../../src/machine/play/player-options.js";
import { adapterPath, close, prompt, testEngine } from "./support.js";

const MB = 2 ** 20;
const addon = await openAddon(false);

describe("an engine on a CPU", () => {
  it("says what computes", async () => {
    const { info } = await testEngine();
    const cpu = addon.devices().find(({ isGpu }) => !isGpu);
    expect(info.compute).toEqual({
      backend: "cpu",
      device: cpu?.description,
      offloadedLayers: 0,
      layers: 3, // two, and the output
      weights: info.weightType,
      kv: "F32",
      flashAttention: false, // f32 weights
      sampling: "host",
    });
  });

  it("does without flash attention where it is asked to be exact", async () => {
    const model = modelFile("tiny");
    const load = (exact: boolean) => testEngine({ model, exact });
    const fast = await load(false);
    expect(fast.info.compute).toMatchObject({ weights: "F16", kv: "F16", flashAttention: true });
    await expect(load(true)).rejects.toThrow("is loaded already, with exact false, not true");
    const text = "The meeting about the budget was moved to Thursday, March 14, at 10 o'clock. ".repeat(8);
    const tokens = fast.tokenize(text, { special: false });
    const [scores, compute] = [await fast.score(tokens), fast.memory().compute];
    await close(fast);
    const exact = await load(true);
    expect(exact.info.compute.flashAttention).toBe(false);
    // The scores of all heads are there at a time.
    expect(exact.memory().compute).toBeGreaterThan(compute);
    const other = await exact.score(tokens);
    const mean = scores.reduce((sum, score, i) => sum + Math.abs(score - (other[i] as number)), 0) / scores.length;

    expect(mean).toBeGreaterThan(0);
    expect(mean).toBeLessThan(mismatchLimit("F16"));
    await close(exact);
  });

  it("counts the buffers of all lanes, as they are now", async () => {
    const lanes = Math.min(2, usableCores());
    const engine = await testEngine({ threads: lanes, lanes, sequences: 4, contextPerSequence: 4096 });
    const sum = (kind: "weights" | "adapters" | "kv" | "compute" | "output") =>
      engine.memory().buffers.reduce((bytes, buffer) => bytes + buffer[kind], 0);
    const awake = engine.memory();
    // llama.cpp's own lines have two digits behind the point.
    const exact = 0.01 * MB * lanes;
    expect(Math.abs(sum("kv") - awake.kv)).toBeLessThan(exact);
    expect(Math.abs(sum("weights") - awake.weights)).toBeLessThan(exact);
    expect(awake.compute).toBe(sum("compute"));
    expect(awake.compute).toBeGreaterThan(0);
    expect(sum("adapters")).toBe(0);

    await engine.useAdapter(adapterPath("counted"));
    expect(sum("adapters")).toBeGreaterThan(0);
    await engine.score(prompt("the first batch makes the compute buffers anew"));
    const adapted = engine.memory();
    expect(adapted.compute).toBe(sum("compute"));
    expect(adapted.compute).toBeLessThan(2 * awake.compute);

    await engine.sleep();
    expect(engine.memory()).toMatchObject({ compute: 0, kv: 0 });
    expect([sum("kv"), sum("output")]).toEqual([0, 0]);
    expect(sum("weights")).toBeGreaterThan(0);
    await engine.sleep({ weights: true });
    expect([sum("weights"), sum("adapters")]).toEqual([0, 0]);
    await engine.wake({ sequences: 2 });
    expect(Math.abs(sum("kv") - awake.kv / 2)).toBeLessThan(exact);
    expect(sum("adapters")).toBeGreaterThan(0);
    await close(engine);
  });
});

describe("llama.cpp's limit of sequences", () => {
  it("is the one that --concurrency has", () => {
    expect(addon.mostSequences()).toBe(MOST_SEQUENCES);
  });

  it("is told in one line before anything is loaded", async () => {
    await expect(testEngine({ sequences: 257, lanes: 1 })).rejects.toThrow(
      "257 sequences at once are too many: llama.cpp evaluates at most 256 in one context; ask for fewer (--concurrency)",
    );
  });

  it.skipIf(usableCores() < 2)("is that of each lane", async () => {
    const engine = await testEngine({ sequences: 258, threads: 2, lanes: 2, contextPerSequence: 16 });
    expect(engine.stats().sequences.slots).toBe(258);
    await close(engine);
    await expect(testEngine({ sequences: 513, threads: 2, lanes: 2 })).rejects.toThrow(
      "llama.cpp evaluates at most 256 in one context, 512 in 2 lanes;",
    );
  });
});
