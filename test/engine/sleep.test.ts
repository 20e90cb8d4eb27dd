/** What can be done with an engine that sleeps, and how it wakes. */
import { rmSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import { usableCores } from "../../src/engine/threads.js";
import { adapterPath, close, largestDifference, newModel, prompt, ROUNDING, testEngine } from "./support.js";

const cores = usableCores();
const wide: Partial<LocalEngineOptions> = cores < 2 ? {} : { threads: 2, lanes: 2 };
const tokens = prompt("the adapter changes every one of these");

/** Scores in all lanes, so that one that was left out shows. */
async function scored(engine: LocalEngine): Promise<number[]> {
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

describe("waking with fewer sequences", () => {
  const sampling = { seed: 1 };
  const SEQUENCES = 6;

  /** More sequences than there are slots, all of them in a turn at once. */
  async function play(engine: LocalEngine) {
    const members = engine.openGroup(prompt("more than there is room for "), SEQUENCES);
    const turns = members.map((member, seed) =>
      member.generate({ maxTokens: 20, sampling: { seed }, stop: [] }).finally(() => member.close()),
    );
    return (await Promise.all(turns)).map((turn) => [...turn.tokens]);
  }

  it("takes less KV; the sequences beyond wait for a slot and draw the same tokens", async () => {
    const settings = { ...wide, model: newModel(), sequences: SEQUENCES };
    const engine = await testEngine(settings);
    const { kv, kvPerSequence } = engine.memory();
    expect(kv).toBe(SEQUENCES * kvPerSequence);
    const all = await play(engine);
    const sequence = engine.open(prompt("open all the time "));
    const first = await sequence.generate({ maxTokens: 5, sampling, stop: [] });
    for (const weights of [false, true]) {
      await engine.sleep({ weights });
      await engine.wake({ sequences: 3 });
      expect(engine.memory().kv).toBe(3 * kvPerSequence);
      expect(engine.stats().sequences.slots).toBe(3);
      expect(await play(engine)).toEqual(all);
      expect(await scored(engine)).toHaveLength(4 * (tokens.length - 1));
    }
    await engine.sleep();
    await engine.wake();
    expect(engine.stats().sequences.slots).toBe(3);
    const second = await sequence.generate({ maxTokens: 5, sampling, stop: [] });
    expect(sequence.length).toBe(prompt("open all the time ").length + first.tokens.length + second.tokens.length);
    sequence.close();
    // Those that join say what the engine was loaded with.
    const joined = await testEngine(settings);
    expect(joined.info.sequences).toBe(SEQUENCES);
    expect(await play(joined)).toEqual(all);
    await close(joined);
    await engine.sleep();
    await engine.wake({ sequences: SEQUENCES });
    expect(engine.memory().kv).toBe(kv);
    expect(await play(engine)).toEqual(all);
    await close(engine);
  });

  it("is refused for numbers that cannot be, and for an engine that is awake", async () => {
    const engine = await testEngine({ sequences: 4 });
    for (const sequences of [0, -1, 1.5, 5, Number.NaN]) {
      await expect(engine.wake({ sequences })).rejects.toThrow(
        sequences === 1.5
          ? "sequences is 1.5; it must be a whole number"
          : `sequences is ${sequences}; it must be from 1 to 4`,
      );
    }
    await expect(engine.wake({ sequences: 3 })).rejects.toThrow(
      "the engine is awake; sleep() before its sequences are changed",
    );
    await engine.wake({ sequences: 4 });
    expect(engine.stats().sequences.slots).toBe(4);
    await close(engine);
  });

  it.skipIf(cores < 2)("leaves each lane a slot", async () => {
    const engine = await testEngine({ ...wide, sequences: 4 });
    await engine.sleep();
    await expect(engine.wake({ sequences: 1 })).rejects.toThrow("sequences is 1; it must be from 2 to 4");
    await engine.wake({ sequences: 2 });
    expect(engine.stats().sequences.slots).toBe(2);
    await close(engine);
  });
});
