/** A model with layers that carry a state, which can be copied with all tokens before it, and not be taken back. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import { loadEngine } from "../../src/engine/factory.js";
import { modelShape } from "../../src/engine/models.js";
import { contextsMemory } from "../../src/machine/plan/engine-memory.js";
import { input } from "../plan/support.js";
import { largestDifference, ROUNDING } from "./support.js";

const MEMBERS = 6;
const prompt = Int32Array.from({ length: 70 }, (_, i) => (37 * i + 11) % 900);
const result = Int32Array.from([5, 6, 7, 8]);

const load = (weights: string, more: Partial<LocalEngineOptions> = {}) =>
  loadEngine({
    ...{ model: modelPath(`lfm2-tiny-${weights}.gguf`), name: JSON.stringify(more), gpu: false, threads: 2, lanes: 1 },
    ...{ sequences: MEMBERS, contextPerSequence: 256, ...more },
  });

/** Two turns of a group with one prompt, and what each member's tokens are then. */
async function play(engine: LocalEngine) {
  const members = engine.openGroup(prompt, MEMBERS);
  const playOne = async (member: (typeof members)[number], seed: number) => {
    const turn = (append?: Int32Array) =>
      member.generate({ ...(append ? { append } : {}), maxTokens: 12, sampling: { seed }, stop: [] });
    const [first, second] = [await turn(), await turn(result)];
    member.close();
    const logprobs = [...first.logprobs, ...second.logprobs];
    return { logprobs, tokens: Int32Array.from([...prompt, ...first.tokens, ...result, ...second.tokens]) };
  };
  return Promise.all(members.map(playOne));
}

/** The log-probabilities of what was sampled, as the engine gives them to whole conversations. */
async function scored(engine: LocalEngine, tokens: Int32Array) {
  const all = await engine.score(tokens);
  return [...all.slice(prompt.length - 1, prompt.length + 11), ...all.slice(prompt.length + 15)];
}

describe("a model whose state cannot be taken back", () => {
  let engine: LocalEngine;
  beforeAll(async () => {
    await ensureTestModels(["tiny"], () => undefined);
    engine = await load("f32");
  }, 900_000);
  afterAll(() => engine.close());

  it("evaluates a group's prompt once, and copies what it keeps of it to the others", async () => {
    // All of them ask before the first begins: an adapter change waits for another turn, and they for the change.
    const [other] = engine.openGroup(Int32Array.of(1), 1);
    const end = new AbortController();
    const turn = other?.generate({ maxTokens: 200, sampling: { seed: 1 }, stop: [], signal: end.signal });
    const change = engine.useAdapter(null);
    const playing = play(engine);
    end.abort();
    await Promise.all([turn, change]);
    other?.close();
    const played = await playing;
    expect(engine.stats()).toMatchObject({ forks: MEMBERS - 1, reused: (MEMBERS - 1) * (prompt.length - 1) });
    // A prompt, its last token for each other member, and between turns the last sampled token with the result; and the
    // other turn's prompt, unless it was ended before.
    const [most, before] = [prompt.length + MEMBERS - 1 + MEMBERS * (1 + result.length), engine.stats().prefilled];
    expect([most, most + 1]).toContain(before);
    expect(new Set(played.map(({ tokens }) => tokens.join())).size).toBe(MEMBERS);
    for (const { tokens, logprobs } of played) {
      expect(largestDifference(logprobs, await scored(engine, tokens))).toBeLessThan(ROUNDING);
    }
  });

  it("draws the same in lanes, in passes of few tokens, where a pool was asked for, and after it has slept", async () => {
    const wanted = (await play(engine)).map(({ tokens }) => tokens.join());
    for (const more of [{ lanes: 2 }, { ubatch: 8 }, { pooledKv: true }, { sequences: 4 }]) {
      const other = await load("f32", more);
      expect((await play(other)).map(({ tokens }) => tokens.join())).toEqual(wanted);
      await other.close();
    }
    await engine.sleep({ weights: true });
    await engine.wake();
    expect((await play(engine)).map(({ tokens }) => tokens.join())).toEqual(wanted);
  });

  it("has the KV of the layers that attend alone, and the state of the others, as the plan says", async () => {
    const shape = await modelShape(modelPath("lfm2-tiny-f32.gguf"));
    // Two layers with two heads of 32 numbers for keys and values each; two with two inputs of 128 numbers.
    const sequence = 256 * 2 * 2 * 2 * 32 * 4 + 2 * 2 * 128 * 4;
    const plan = { ...input, shape, concurrency: MEMBERS, context: 256 };
    expect(contextsMemory(plan).kv).toBe(MEMBERS * sequence);
    // llama.cpp reports hundredths of a MiB.
    const { kv, kvPerSequence } = engine.memory();
    expect(Math.abs(kv - MEMBERS * sequence)).toBeLessThan(0.01 * 2 ** 20);
    expect(kvPerSequence).toBe(Math.floor(kv / MEMBERS));
  });

  it("computes 16 bits and blocks of 8 on a CPU with many sequences, whatever instructions that has", async () => {
    for (const weights of ["f16", "q8_0"]) {
      const other = await load(weights, { sequences: 16 });
      const all = await Promise.all([play(other), play(other)]);
      for (const { logprobs } of all.flat()) expect(logprobs.every(Number.isFinite)).toBe(true);
      await other.close();
    }
  });
});
