import { statSync, truncateSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { loadEngine } from "../../src/engine/factory.js";
import { onEngineLog } from "../../src/engine/load.js";
import { sleepsAndWakes } from "./behaviours.js";
import {
  adapterPath,
  close,
  concat,
  largestDifference,
  newModel,
  options,
  prompt,
  ROUNDING,
  testEngine,
} from "./support.js";
import { tiny } from "./tiny-model.js";

const sampling = { seed: 1 };

/** A model without the last of its weights. */
function cutModel(): string {
  const file = newModel();
  truncateSync(file, statSync(file).size - 1000);
  return file;
}

describe("an engine", async () => {
  const engine = await testEngine();

  it("says what it runs", () => {
    const { info } = engine;
    expect(info).toMatchObject({
      architecture: "qwen2",
      weightType: "F32",
      vocabularySize: tiny.vocabulary,
      trainedContext: tiny.context,
      special: { bos: tiny.endOfText, eos: tiny.end, pad: tiny.endOfText },
      bosText: "<|endoftext|>",
      eosText: "<|im_end|>",
      addsBos: false,
      sequences: 4,
      contextPerSequence: 512,
      threads: 1,
      gpu: false,
    });
    expect(info.chatTemplate).toContain("<|im_start|>");
    expect(info.toolTemplate).toBe("{{ tools }}");
    expect(info.endTokens).toContain(tiny.end);
    expect(Object.fromEntries(info.controlTokens)).toEqual({
      "<|endoftext|>": tiny.endOfText,
      "<|im_start|>": tiny.start,
      "<|im_end|>": tiny.end,
    });
    expect(Object.fromEntries(info.addedTokens)).toEqual({});
    expect(engine.memory().weights).toBe(4 * info.parameters);
    // K and V of 2 layers and 2 heads of 16 numbers; f32 as the weights are.
    expect(engine.memory().kvPerSequence).toBe(512 * 2 * 2 * 2 * 16 * 4);
    expect(engine.memory().kv).toBe(4 * engine.memory().kvPerSequence);
  });

  it("recognises control tokens only when asked to", () => {
    const text = "the <|im_end|>";
    expect([...engine.tokenize(text, { special: true })]).toEqual([260, 32, tiny.end]);
    expect([...engine.tokenize(text, { special: false })]).toEqual([260, ...Buffer.from(" <|im_end|>")]);
    expect(engine.detokenize([260, 32, tiny.end])).toBe("the ");
    expect(engine.detokenize([260, 32, tiny.end], { special: true })).toBe(text);
    expect([...engine.tokenize("", { special: true })]).toEqual([]);
  });

  it("gives the bytes of tokens that are no characters alone", () => {
    const tokens = engine.tokenize("né", { special: false });
    expect([...tokens]).toEqual([110, 0xc3, 0xa9]);
    expect([...engine.bytes(tokens.slice(0, 2))]).toEqual([110, 0xc3]);
    expect(engine.detokenize(tokens.slice(0, 2))).toBe("n\uFFFD");
    expect(engine.detokenize(tokens)).toBe("né");
    expect(() => engine.bytes([tiny.vocabulary])).toThrow("token 261 of the tokens does not exist");
  });

  it("scores given tokens, however they are cut", async () => {
    const tokens = prompt("score ".repeat(50));
    const all = await engine.score(tokens);
    expect(all).toHaveLength(tokens.length - 1);
    expect(Math.max(...all)).toBeLessThan(0);
    const tail = await engine.score(tokens, { from: 250 });
    expect(largestDifference(tail, all.slice(249))).toBeLessThan(ROUNDING);
    expect(await engine.score(tokens, { from: tokens.length })).toHaveLength(0);
    await expect(engine.score(tokens, { signal: AbortSignal.abort() })).rejects.toThrow("aborted");
    await expect(engine.score(tokens, { from: 0 })).rejects.toThrow("from is 0");
  });
});

describe("loading", () => {
  it("shares one engine for one file, until the last user has closed it", async () => {
    const same = options();
    const one = await loadEngine(same);
    const two = await loadEngine(same);
    const sequence = one.open(prompt("a"));
    const other = two.open(prompt("a"));
    await sequence.generate({ maxTokens: 2, sampling, stop: [] });
    expect(two.stats()).toEqual(one.stats());
    expect(two.stats().decoded).toBe(2);
    await expect(loadEngine({ ...same, sequences: 9 })).rejects.toThrow(/loaded already, with sequences 4, not 9/);
    const running = other.generate({ maxTokens: 400, sampling, stop: [] });
    await one.close();
    expect((await running).stop).toBe("length");
    expect(() => one.stats()).toThrow("the engine was closed");
    await one.close();
    await two.close();
    const anew = await loadEngine({ ...same, sequences: 9 });
    expect(anew.stats().decoded).toBe(0);
    await anew.close();
  });

  it("ends what runs when it is closed", async () => {
    const engine = await loadEngine(options({ contextPerSequence: 8192 }));
    const turn = engine.open(prompt("a")).generate({ maxTokens: 8000, sampling, stop: [] });
    await engine.close();
    expect((await turn).stop).toBe("cancelled");
  });

  it("says what is wrong with a file or a setting", async () => {
    await expect(loadEngine(options({ model: "no-such.gguf" }))).rejects.toThrow("no-such.gguf cannot be read");
    await expect(loadEngine(options({ model: import.meta.filename }))).rejects.toThrow(
      "engine.test.ts is not a GGUF model: it does not begin with GGUF",
    );
    await expect(loadEngine(options({ model: cutModel() }))).rejects.toThrow(/cannot be loaded: .*file bounds/);
    await expect(loadEngine(options({ sequences: 0 }))).rejects.toThrow("sequences is 0");
    await expect(loadEngine(options({ gpu: "cuda" }))).rejects.toThrow("gpu cuda was asked for");
  });

  it("tells llama.cpp's complaints to whoever listens", async () => {
    const lines: string[] = [];
    await onEngineLog((level, line) => lines.push(`${level}: ${line}`));
    await expect(loadEngine(options({ model: cutModel() }))).rejects.toThrow();
    await expect.poll(() => lines.join("\n")).toMatch(/error: .*file bounds/);
    await onEngineLog(null);
  });
});

describe("an adapter", async () => {
  const model = newModel();
  const engine = await testEngine({ model });
  const tokens = prompt("the adapter changes every one of these");

  it("changes what the model says, and can be taken off", async () => {
    const base = await engine.score(tokens);
    await engine.useAdapter(adapterPath("one"));
    expect(engine.adapter).toBe(adapterPath("one"));
    const one = await engine.score(tokens);
    expect(largestDifference(base, one)).toBeGreaterThan(0.1);
    await engine.useAdapter(adapterPath("two"));
    expect(largestDifference(one, await engine.score(tokens))).toBeGreaterThan(0.1);
    await engine.useAdapter(null);
    expect(engine.adapter).toBeNull();
    expect(largestDifference(base, await engine.score(tokens))).toBeLessThan(ROUNDING);
  });

  it("that cannot be used leaves the old one in place", async () => {
    await engine.useAdapter(adapterPath("one"));
    const before = await engine.score(tokens);
    await expect(engine.useAdapter("no-such.gguf")).rejects.toThrow(/no-such.gguf cannot be put on .*No such file/);
    await expect(engine.useAdapter(model)).rejects.toThrow("cannot be put on");
    expect(engine.adapter).toBe(adapterPath("one"));
    expect(largestDifference(before, await engine.score(tokens))).toBeLessThan(ROUNDING);
    await engine.useAdapter(null);
  });

  it("is swapped under load between turns, never within one", async () => {
    const paths = [adapterPath("one"), adapterPath("two"), null];
    const start = prompt("under load ");
    const asked: { adapter: string | null; result: Promise<{ tokens: Int32Array; logprobs: Float32Array }> }[] = [];
    const swaps: Promise<void>[] = [engine.useAdapter(null)];
    let adapter: string | null = null;
    for (let round = 0; round < 12; round++) {
      for (let member = 0; member < 3; member++) {
        const sequence = engine.open(start);
        const result = sequence.generate({ maxTokens: 20, sampling: { seed: round * 3 + member }, stop: [] });
        asked.push({ adapter, result: result.finally(() => sequence.close()) });
      }
      adapter = paths[round % 3] as string | null;
      swaps.push(engine.useAdapter(adapter));
    }
    const results = await Promise.all(asked.map(async (turn) => ({ ...turn, ...(await turn.result) })));
    await Promise.all(swaps);
    for (const path of paths) {
      await engine.useAdapter(path);
      for (const { tokens: sampled, logprobs } of results.filter((result) => result.adapter === path)) {
        const scored = await engine.score(concat(start, sampled), { from: start.length });
        expect(largestDifference(scored, logprobs)).toBeLessThan(ROUNDING);
      }
    }
  });

  it("does not let an open sequence mix KV of two adapters", async () => {
    await engine.useAdapter(null);
    const start = prompt("open while the adapter changes ");
    const sequence = engine.open(start);
    const first = await sequence.generate({ maxTokens: 10, sampling, stop: [] });
    await engine.useAdapter(adapterPath("one"));
    const second = await sequence.generate({ maxTokens: 10, sampling, stop: [] });
    const all = concat(start, first.tokens, second.tokens);
    const scored = await engine.score(all, { from: all.length - 10 });
    expect(largestDifference(second.logprobs, scored)).toBeLessThan(ROUNDING);
    sequence.close();
  });
});

describe("sleep", () => {
  it.each([false, true])("shows in memory(), and wake restores everything (weights: %s)", async (weights) => {
    const engine = await testEngine();
    await engine.useAdapter(adapterPath("one"));
    await sleepsAndWakes(engine, weights, ROUNDING);
    await close(engine);
  });
});
