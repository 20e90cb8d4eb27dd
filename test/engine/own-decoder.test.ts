/** hone's own graph (`--decoder own`) beside llama.cpp's: native/engine/own_decoder.h. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import { type OwnTrial, openAddon } from "../../src/engine/addon.js";
import { verdictOf } from "../../src/engine/own-decoder.js";
import { afterFile } from "../support/after-file.js";
import {
  changesAdapter,
  evaluatesAPromptOnce,
  evaluatesOnlyWhatIsAppended,
  hasAnAdapterOfItsOwn,
  keepsWhatItHasWhenCancelled,
  sleepsAndWakes,
} from "./behaviours.js";
import { adapterPath, close, concat, largestDifference, newModel, prompt, testEngine } from "./support.js";

// What trials of these models showed is not kept in the user's cache.
process.env.XDG_CACHE_HOME = mkdtempSync(join(tmpdir(), "hone-own-cache-"));
afterFile(() => rmSync(process.env.XDG_CACHE_HOME as string, { recursive: true }));

/**
 * Both decoders round the same numbers, and on some CPUs they are equal to the last bit. With an adapter, in another pass, or by
 * other kernels they add in another order, and the difference is a rounding of 16 bits: 0.01 at most on these models. A wrong
 * position, adapter or neighbour changes more than 0.1.
 */
const ROUNDING = 0.05;

const own = (more: Partial<LocalEngineOptions> = {}, log?: (line: string) => void): Promise<LocalEngine> =>
  testEngine({ model: newModel({ weights: "bf16" }), decoder: "own", ...more }, log);

async function tried(model: string, adapter = "", steadyShapes = false): Promise<OwnTrial> {
  const addon = await openAddon(false);
  return await addon.tryOwnDecoder({ model, adapter, useGpu: false, steadyShapes, threads: 1 });
}

const text = prompt("a text whose tokens are scored, one after the other");

describe("hone's own graph computes what llama.cpp's does, but for rounding", () => {
  const models = [
    "qwen2-tiny-f16.gguf",
    "qwen2-tiny-q8_0.gguf",
    "llama-tiny-f16.gguf",
    "llama-tiny-q8_0.gguf",
    "qwen3-tiny-f16.gguf",
    "qwen3-tiny-q8_0.gguf",
  ];

  // Before the first pass the slots hold what other sequences left.
  it.each(models)("of a prompt, a fork of it, tokens of every sequence, and after a move: %s", async (name) => {
    const { whyNot, kinds } = await tried(modelPath(name));
    expect(whyNot).toBe("");
    for (const { kind, own: apart } of kinds) expect(apart.most, kind).toBeLessThan(ROUNDING);
    expect(kinds.map(({ kind }) => kind)).toEqual(["prompt", "fork", "mixed", "decode", "move", "after"]);
  });

  it("of weights in bf16", async () => {
    const { kinds } = await tried(newModel({ weights: "bf16" }));
    for (const { kind, own: apart } of kinds) expect(apart.most, kind).toBeLessThan(ROUNDING);
  });

  // Prompts are evaluated in a slot of their own there, and pieces of some beside a token of every other. A's rows are behind those of
  // the weights, rounded to their type.
  it.each([
    ["qwen2", ""],
    ["qwen2", "-adapter-1.gguf"],
    ["llama", "-adapter-1.gguf"],
    ["qwen3", "-adapter-1.gguf"],
  ])("where rows only fill the shape of a pass: %s-tiny, its adapter: %j", async (name, adapter) => {
    const { kinds } = await tried(
      modelPath(`${name}-tiny-f16.gguf`),
      adapter && modelPath(`${name}-tiny${adapter}`),
      true,
    );
    for (const { kind, own: apart } of kinds) expect(apart.most, kind).toBeLessThan(ROUNDING);
  });
});

it("refuses a pass for which its memory would have to grow, and goes on", async () => {
  const { refusal, kinds } = await tried(newModel({ weights: "bf16", words: 20_000 }));
  expect(refusal).toMatch(
    /^a pass of 256 rows with the logits of 256 needs a compute buffer of \d+ bytes, and there are \d+$/,
  );
  expect(kinds.at(-1)).toMatchObject({ kind: "after", rows: 3 });
  expect(kinds.at(-1)?.own.most).toBeLessThan(ROUNDING);
});

it.each(["qwen2", "llama", "qwen3"])("differs with an adapter by no more than rounding: %s", async (family) => {
  const adapter = modelPath(`${family}-tiny-adapter-1.gguf`);
  const trial = await tried(modelPath(`${family}-tiny-f16.gguf`), adapter);
  for (const { own } of trial.kinds) expect(own.most).toBeLessThan(ROUNDING);
});

describe("a trial's verdict", () => {
  const kind = { kind: "decode", rows: 100 };
  const trial = (own: number, llama: number): OwnTrial => ({
    whyNot: "",
    refusal: "",
    kinds: [{ ...kind, own: { mean: own, most: 5 * own }, llama: { mean: llama, most: 5 * llama } }],
  });

  it("follows how far llama.cpp is from itself", () => {
    expect(verdictOf(trial(0.03, 0.03))).toBe("");
    expect(verdictOf(trial(0.03, 0))).toContain("differ from llama.cpp's by 0.030 nats on average and 0.15 at most");
    expect(verdictOf(trial(0.3, 0.03))).not.toBe("");
    expect(verdictOf(trial(Number.NaN, 0.03))).not.toBe("");
  });

  it("is that it cannot play", () => {
    expect(verdictOf({ whyNot: "it has no graph for the architecture olmo2", refusal: "", kinds: [] })).toContain(
      "olmo2",
    );
  });
});

describe("what it cannot play is played by llama.cpp, and told in one line", () => {
  it.each([
    ["another architecture", "olmo2-tiny-f16.gguf", {}, "it has no graph for the architecture olmo2"],
    ["weights of 32 bits", "qwen2-tiny-f32.gguf", {}, "it plays weights of 16 bits and fewer"],
    ["exact sums", "qwen2-tiny-f16.gguf", { exact: true }, "it has flash attention alone"],
  ])("%s", async (_, name, more, why) => {
    const lines: string[] = [];
    const engine = await testEngine({ model: modelPath(name), decoder: "own", ...more }, (line) => lines.push(line));
    expect(lines.filter((line) => line.startsWith("llama.cpp's graph plays, and not hone's own"))).toEqual([
      expect.stringContaining(why),
    ]);
    const plain = await testEngine({ model: modelPath(name), name: "plain", ...more });
    expect(largestDifference(await engine.score(text), await plain.score(text))).toBe(0);
    await close(engine);
    await close(plain);
  });
});

it("is compared with llama.cpp's once for a file", async () => {
  const model = newModel({ weights: "bf16" });
  const lines: string[] = [];
  for (const name of ["first", "second"]) await close(await own({ model, name }, (line) => lines.push(line)));
  expect(lines).toEqual([
    expect.stringMatching(/^comparing hone's own graph with llama.cpp's on tiny-\d+\.gguf, once$/),
  ]);
});

it("has long prompts alone and pieces of others beside single tokens, where shapes are few", async () => {
  const engine = await own({ name: "steady", steadyShapes: true, sequences: 4, contextPerSequence: 1024 });
  const llama = await testEngine({ model: engine.info.model, name: "llama", sequences: 4, contextPerSequence: 1024 });
  await engine.useAdapter(adapterPath("one"));
  await llama.useAdapter(adapterPath("one"));
  // More than a prompt that is mixed with others has, a group, and results of several lengths while others go on.
  const open = [...engine.openGroup(prompt("x".repeat(300)), 3), engine.open(prompt("y".repeat(90)))];
  await Promise.all(
    open.map(async (sequence, index) => {
      let all = sequence === open[3] ? prompt("y".repeat(90)) : prompt("x".repeat(300));
      for (const appended of [0, 5 + 33 * index, 70]) {
        const append = prompt("result ".repeat(appended)).slice(0, appended);
        const sampling = { seed: index };
        const turn = await sequence.generate({
          ...(appended > 0 ? { append } : {}),
          maxTokens: 12,
          sampling,
          stop: [],
        });
        const before = concat(all, append);
        all = concat(before, turn.tokens);
        const theirs = await llama.score(all, { from: before.length });
        expect(largestDifference(turn.logprobs, theirs)).toBeLessThan(ROUNDING);
      }
      sequence.close();
    }),
  );
  const { passes, batches, promptPasses } = engine.stats();
  expect(passes).toBe(batches);
  expect(promptPasses).toBeGreaterThan(0);
  await close(engine);
  await close(llama);
});

describe("an engine on it", async () => {
  const engine = await own();

  it("scores as one on llama.cpp's", async () => {
    const llama = await testEngine({ model: engine.info.model, name: "llama" });
    expect(largestDifference(await engine.score(text), await llama.score(text))).toBeLessThan(ROUNDING);
    await close(llama);
  });

  it("tells of what it samples the log-probabilities that llama.cpp's gives it", async () => {
    const llama = await testEngine({ model: engine.info.model, name: "llama" });
    const { tokens, logprobs } = await engine.open(text).generate({ maxTokens: 40, sampling: { seed: 3 }, stop: [] });
    const theirs = await llama.score(concat(text, tokens));
    expect(logprobs.length).toBeGreaterThan(0);
    expect(largestDifference(logprobs, theirs.slice(-logprobs.length))).toBeLessThan(ROUNDING);
    await close(llama);
  });

  it("evaluates only what is appended", () => evaluatesOnlyWhatIsAppended(engine, 30, ROUNDING));
  it("evaluates a prompt once for its group", () => evaluatesAPromptOnce(engine, { members: 4, length: 40 }, ROUNDING));
  it("keeps what it has when cancelled", () => keepsWhatItHasWhenCancelled(engine, ROUNDING));
  it.each([false, true])("sleeps and wakes (weights given back: %s)", (weights) =>
    sleepsAndWakes(engine, weights, ROUNDING),
  );

  it("makes one pass of each batch, whichever slots it has", async () => {
    const before = engine.stats();
    const turns = [10, 25, 60].map((length) =>
      engine.open(prompt("z".repeat(length))).generate({ maxTokens: 5, sampling: { seed: length }, stop: [] }),
    );
    await Promise.all(turns);
    const { passes, batches } = engine.stats();
    expect(passes - before.passes).toBe(batches - before.batches);
  });

  it("names the likeliest tokens as one on llama.cpp's", async () => {
    const llama = await testEngine({ model: engine.info.model, name: "llama" });
    const each = (one: LocalEngine) => one.scoreEach?.(text, { likeliest: 3 });
    expect(await each(engine)).toEqual(await each(llama));
    await close(llama);
  });

  it("has an adapter of its own beside another engine of the model", async () => {
    const beside = await own({ model: engine.info.model, name: "beside" });
    await hasAnAdapterOfItsOwn(engine, beside, adapterPath("one"), ROUNDING);
    await close(beside);
  });

  it("changes its adapter while turns run, and has none of the one before", async () => {
    const base = await engine.score(text);
    await engine.useAdapter(adapterPath("one"));
    const one = await engine.score(text);
    await changesAdapter(engine, adapterPath("two"), 5, () => undefined);
    await engine.useAdapter(adapterPath("two"));
    const two = await engine.score(text);
    await engine.useAdapter(adapterPath("one"));
    expect(largestDifference(await engine.score(text), one)).toBe(0);
    expect(largestDifference(two, one)).toBeGreaterThan(2 * ROUNDING);
    await engine.useAdapter(null);
    expect(largestDifference(await engine.score(text), base)).toBe(0);
  });

  it("keeps the adapter that it had when another cannot be put on", async () => {
    await engine.useAdapter(adapterPath("one"));
    const before = await engine.score(text);
    const broken = `${adapterPath("one")}.broken.gguf`;
    writeFileSync(broken, "GGUF");
    await expect(engine.useAdapter(broken)).rejects.toThrow("cannot be");
    expect(largestDifference(await engine.score(text), before)).toBe(0);
    await engine.useAdapter(null);
  });
});
