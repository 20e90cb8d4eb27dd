/** Contexts beside each other on the same weights: to those who use the engine there is one. */
import { describe, expect, it } from "vitest";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import { usableCores } from "../../src/engine/threads.js";
import { adapterPath, largestDifference, prompt, ROUNDING, testEngine } from "./support.js";

const MEMBERS = 8;
const wide: Partial<LocalEngineOptions> = { threads: 2, sequences: MEMBERS };

/** Two groups play together; one result a member. */
async function play(engine: LocalEngine, maxTokens = 40) {
  const members = ["the first", "the second"].flatMap((text) =>
    engine.openGroup(prompt(`${text} question `), MEMBERS / 2),
  );
  const turns = members.map((member, seed) => member.generate({ maxTokens, sampling: { seed }, stop: [] }));
  const results = await Promise.all(turns);
  for (const member of members) member.close();
  return results;
}

const cores = usableCores();
const lack = cores < 2 ? " (skipped: a lane needs a core, and this machine has one)" : "";

describe.skipIf(cores < 2)(`an engine with lanes${lack}`, async () => {
  const one = await testEngine({ ...wide, lanes: 1 });
  const two = await testEngine({ ...wide, lanes: 2 });

  it("has one for each thread where the model is small, and refuses more than sequences", async () => {
    expect((await testEngine(wide)).info.lanes).toBe(2);
    expect((await testEngine({ ...wide, sequences: 1 })).info.lanes).toBe(1);
    expect((await testEngine({ ...wide, sequences: 7 })).info.lanes).toBe(1);
    await expect(testEngine({ ...wide, sequences: 1, lanes: 2 })).rejects.toThrow("lanes is 2; it must be from 1 to 1");
  });

  it("draws the tokens that one context draws, in both lanes", async () => {
    const [alone, beside] = [await play(one), await play(two)];
    expect(beside.map(({ tokens }) => [...tokens])).toEqual(alone.map(({ tokens }) => [...tokens]));
    beside.forEach(({ logprobs }, i) => {
      expect(largestDifference(logprobs, alone[i]?.logprobs ?? [])).toBeLessThan(ROUNDING);
    });
    // A turn of 40 tokens is 40 batches: each lane has played its own.
    expect(two.stats().batches).toBeGreaterThanOrEqual(80);
    expect(two.stats()).toMatchObject({ decoded: MEMBERS * 40, threads: 2, sequences: { running: 0, queued: 0 } });
  });

  it("holds the weights once and the sequences' KV in all", () => {
    expect(two.memory()).toMatchObject({ weights: one.memory().weights, kv: one.memory().kv });
  });

  it("swaps adapters in all lanes, or in none", async () => {
    const adapter = adapterPath("lanes");
    for (const engine of [one, two]) await engine.useAdapter(adapter);
    const adapted = await play(two);
    expect(adapted.map(({ tokens }) => [...tokens])).toEqual((await play(one)).map(({ tokens }) => [...tokens]));
    await expect(two.useAdapter("/no/such/adapter.gguf")).rejects.toThrow("/no/such/adapter.gguf");
    expect(two.adapter).toBe(adapter);
    expect((await play(two)).map(({ tokens }) => [...tokens])).toEqual(adapted.map(({ tokens }) => [...tokens]));
    await two.sleep({ weights: true });
    expect(two.memory()).toMatchObject({ weights: 0, kv: 0 });
    await expect(play(two, 1)).rejects.toThrow("the engine sleeps");
    await two.wake();
    expect((await play(two)).map(({ tokens }) => [...tokens])).toEqual(adapted.map(({ tokens }) => [...tokens]));
  });

  it("scores in any lane", async () => {
    const tokens = prompt("score ".repeat(20));
    await one.useAdapter(null);
    await two.useAdapter(null);
    const expected = await one.score(tokens);
    const scores = await Promise.all(Array.from({ length: 4 }, () => two.score(tokens)));
    for (const score of scores) expect(largestDifference(score, expected)).toBeLessThan(ROUNDING);
  });
});
