/** What takes longer of hone's own graph: many adapters, weights of 4 bits, and that it draws tokens itself. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import { openAddon } from "../../src/engine/addon.js";
import { verdictOf } from "../../src/engine/own-decoder.js";
import { quantizeModel } from "../../src/engine/quantize.js";
import { afterFile } from "../support/after-file.js";
import { changesAdapter, countsOfDrawing, drawsAsTheHost } from "./behaviours.js";
import { adapterPath, close, largestDifference, newModel, prompt, testEngine } from "./support.js";

// What trials of these models showed is not kept in the user's cache.
process.env.XDG_CACHE_HOME = mkdtempSync(join(tmpdir(), "hone-own-cache-"));
afterFile(() => rmSync(process.env.XDG_CACHE_HOME as string, { recursive: true }));

it("has none of 200 adapters left when the last one is taken off", async () => {
  const engine = await testEngine({ model: newModel({ weights: "bf16" }), decoder: "own" });
  const text = prompt("what every one of the adapters would change");
  const base = await engine.score(text);
  await engine.useAdapter(adapterPath("one"));
  const one = await engine.score(text);
  await changesAdapter(engine, adapterPath("two"), 200, async (change) => {
    if (change % 50 === 0) expect(largestDifference(await engine.score(text), one)).toBeGreaterThan(0.1);
  });
  await engine.useAdapter(adapterPath("one"));
  expect(largestDifference(await engine.score(text), one)).toBe(0);
  await engine.useAdapter(null);
  expect(largestDifference(await engine.score(text), base)).toBe(0);
  await close(engine);
});

it("differs from llama.cpp, with matrices of one input in several types, by as much as llama.cpp from itself", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-own-"));
  try {
    const file = join(folder, "q4.gguf");
    await quantizeModel(modelPath("qwen2-tiny-f16.gguf"), file, "q4_k_m");
    const addon = await openAddon(false);
    const settings = { model: file, useGpu: false, steadyShapes: false, threads: 1 };
    for (const adapter of ["", modelPath("qwen2-tiny-adapter-1.gguf")]) {
      const trial = await addon.tryOwnDecoder({ ...settings, adapter });
      expect(trial.kinds[0]).toMatchObject({ kind: "prompt", rows: 16 });
      expect(verdictOf(trial)).toBe("");
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it("draws where the logits are what the host would draw", async () => {
  const model = newModel({ weights: "bf16" });
  const host = await testEngine({ model, decoder: "own", name: "host", sampling: "host" });
  const device = await testEngine({ model, decoder: "own", name: "device", sampling: "device" });
  expect(device.info.compute.sampling).toBe("device");
  await drawsAsTheHost(host, device, { temperatures: [1, 0.7], tokens: 60, members: 4 });
  countsOfDrawing(device);
  await close(host);
  await close(device);
});
