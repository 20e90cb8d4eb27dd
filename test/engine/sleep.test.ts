/** What can be done with an engine that sleeps, and how it wakes. */
import { rmSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Engine, EngineOptions } from "../../src/engine/index.js";
import { usableCores } from "../../src/engine/index.js";
import { adapterPath, close, largestDifference, newModel, prompt, ROUNDING, testEngine } from "./support.js";

const cores = usableCores();
const wide: Partial<EngineOptions> = cores < 2 ? {} : { threads: 2, lanes: 2 };
const tokens = prompt("the adapter changes every one of these");

/** Scores in all lanes, so that one that was left out shows. */
async function scored(engine: Engine): Promise<number[]> {
  const scores = await Promise.all(Array.from({ length: 4 }, () => engine.score(tokens)));
  return scores.flatMap((score) => [...score]);
}

describe.each([false, true])("an adapter that is set while the engine sleeps (weights given back: %s)", (weights) => {
  it("is on the model when the engine wakes", async () => {
    const engine = await testEngine(wide);
    const fresh = await testEngine(wide);
    const base = await scored(fresh);
    await engine.useAdapter(adapterPath("one"));
    for (const path of [adapterPath("two"), null, adapterPath("one")]) {
      await engine.sleep({ weights });
      await engine.useAdapter(path);
      expect(engine.adapter).toBe(path);
      expect(engine.memory().kv).toBe(0);
      await engine.wake();
      await fresh.useAdapter(path);
      const scores = await scored(engine);
      expect(largestDifference(scores, await scored(fresh))).toBeLessThan(ROUNDING);
      if (path) expect(largestDifference(scores, base)).toBeGreaterThan(0.1);
    }
    await close(engine);
    await close(fresh);
  });

  it("leaves the one before in place when it cannot be read", async () => {
    const model = newModel();
    const engine = await testEngine({ ...wide, model });
    await engine.useAdapter(adapterPath("one"));
    const before = await scored(engine);
    await engine.sleep({ weights });
    for (const [path, reason] of [
      ["no-such.gguf", /no-such.gguf cannot be put on .*No such file/],
      [import.meta.filename, /cannot be put on .*(GGUF|magic)/i],
      [import.meta.dirname, /cannot be put on /],
    ] as const) {
      await expect(engine.useAdapter(path)).rejects.toThrow(reason);
      expect(engine.adapter).toBe(adapterPath("one"));
    }
    await engine.wake();
    expect(largestDifference(await scored(engine), before)).toBeLessThan(ROUNDING);
    await close(engine);
  });
});

it("an adapter that turns out not to fit leaves the engine asleep, until another is set", async () => {
  const model = newModel();
  const engine = await testEngine({ ...wide, model });
  await engine.sleep({ weights: true });
  // A GGUF file, but no adapter: without the weights nothing more is known of it.
  await engine.useAdapter(model);
  await expect(engine.wake()).rejects.toThrow(`the adapter ${model} cannot be put on`);
  expect(engine.memory()).toMatchObject({ weights: 0, kv: 0 });
  const adapter = adapterPath("gone");
  await engine.useAdapter(adapter);
  rmSync(adapter);
  await expect(engine.wake()).rejects.toThrow(/gone.gguf cannot be put on .*No such file/);
  await engine.useAdapter(null);
  await engine.wake();
  expect(await scored(engine)).toHaveLength(4 * (tokens.length - 1));
  await close(engine);
});
