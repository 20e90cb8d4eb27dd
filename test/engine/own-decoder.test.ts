/** hone's own graph (`--decoder own`) beside llama.cpp's: native/engine/own_decoder.h. */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import { type OwnTrial, openAddon } from "../../src/engine/addon.js";
import type { LlamaEngine } from "../../src/engine/native.js";
import { verdictOf } from "../../src/engine/own-decoder.js";
import { usableCores } from "../../src/engine/threads.js";
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
import { writeTinyAdapter } from "./tiny-model.js";

// What trials of these models showed is not kept in the user's cache.
const cache = mkdtempSync(join(tmpdir(), "hone-own-cache-"));
process.env.XDG_CACHE_HOME = cache;
afterFile(() => rmSync(cache, { recursive: true }));

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

let copies = 0;

/** Plays a file of its own of qwen2-tiny, and whatever a trial would say: a CPU has other kernels for shapes that a card keeps. */
async function untried(more: Partial<LocalEngineOptions>): Promise<LocalEngine> {
  const model = join(cache, `qwen2-tiny-${copies++}.gguf`);
  copyFileSync(modelPath("qwen2-tiny-f16.gguf"), model);
  const engine = await testEngine({ model, decoder: "own", untried: true, ...more });
  expect((engine as LlamaEngine).decoder).toBe("own");
  return engine;
}

/** Its layers, for adapters. */
const qwen2Tiny = {
  layers: 4,
  linears: [
    ["attn_q", 128, 128],
    ["attn_k", 64, 128],
    ["attn_v", 64, 128],
    ["attn_output", 128, 128],
    ["ffn_gate", 352, 128],
    ["ffn_up", 352, 128],
    ["ffn_down", 128, 352],
  ] as [string, number, number][],
};

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
    expect(kinds.map(({ kind }) => kind)).toEqual(["prompt", "fork", "mixed", "alone", "decode", "move", "after"]);
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

it("has memory for pieces of prompts beside single tokens, where a pass has a token for each sequence", async () => {
  const engine = await untried({ steadyShapes: true, sequences: 8, ubatch: 8 });
  const members = engine.openGroup(text, 2);
  const turns = ["a", "a longer answer"].map((append, seed) =>
    members[seed]?.generate({ append: prompt(append), maxTokens: 8, sampling: { seed }, stop: [] }),
  );
  expect((await Promise.all(turns)).map((turn) => turn?.stop)).toEqual(["length", "length"]);
  await close(engine);
});

it.each(["qwen2", "llama", "qwen3"])("differs with an adapter by no more than rounding: %s", async (family) => {
  const adapter = modelPath(`${family}-tiny-adapter-1.gguf`);
  const trial = await tried(modelPath(`${family}-tiny-f16.gguf`), adapter);
  for (const { own } of trial.kinds) expect(own.most).toBeLessThan(ROUNDING);
});

it.each([false, true])(
  "plays adapters of a rank for which its matrices have no rows (shapes are few: %s)",
  async (steadyShapes) => {
    const [few, many] = [modelPath("qwen2-tiny-adapter-1.gguf"), join(cache, "many.gguf")];
    writeTinyAdapter(many, "many", 40, qwen2Tiny);
    const { kinds } = await tried(modelPath("qwen2-tiny-f16.gguf"), many, steadyShapes);
    for (const { kind, own: apart } of kinds) expect(apart.most, kind).toBeLessThan(ROUNDING);
    // The rows of the first give way to matrices of its own, which the next one has too.
    const engine = await untried({ steadyShapes });
    const llama = await testEngine({ model: engine.info.model, name: "llama" });
    const scores: Float32Array[] = [];
    for (const adapter of [few, many, few, null]) {
      for (const one of [engine, llama]) await one.useAdapter(adapter);
      scores.push(await engine.score(text));
      expect(largestDifference(scores.at(-1) ?? [], await llama.score(text))).toBeLessThan(ROUNDING);
    }
    expect(largestDifference(scores[1] ?? [], scores[0] ?? [])).toBeGreaterThan(2 * ROUNDING);
    for (const one of [engine, llama]) await close(one);
  },
);

function sharedLength(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const apart = Array.from(a).findIndex((token, i) => token !== b[i]);
  return apart === -1 ? a.length : apart;
}

const lack = usableCores() < 2 ? " (skipped: a lane needs a core, and this machine has one)" : "";

// Each lane has its A in rows of its own of the same matrices, behind those of the weights.
it.skipIf(lack !== "")(`plays in two lanes what it plays in one, while adapters are swapped${lack}`, async () => {
  const one = await untried({ steadyShapes: true, sequences: 8 });
  const two = await untried({ steadyShapes: true, sequences: 8, threads: 2, lanes: 2 });
  expect([one, two].map(({ info }) => [info.lanes, info.compute.adapters])).toEqual([
    [1, "F16-A"],
    [2, "F16-A"],
  ]);
  const questions = ["the first", "the second"].map((which) => prompt(`${which} question `));
  const play = async (engine: LocalEngine) => {
    const members = questions.flatMap((question) => engine.openGroup(question, 4));
    const turns = members.map((member, seed) => member.generate({ maxTokens: 20, sampling: { seed }, stop: [] }));
    const played = await Promise.all(turns);
    for (const member of members) member.close();
    return played;
  };
  const scores = new Map<number, Float32Array>();
  let [shared, drawn] = [0, 0];
  // 0: none.
  for (const adapter of [0, 1, 2, 0, 1]) {
    for (const engine of [one, two]) {
      await engine.useAdapter(adapter === 0 ? null : modelPath(`qwen2-tiny-adapter-${adapter}.gguf`));
    }
    const [alone, beside] = [await play(one), await play(two)];
    for (const [member, { tokens, logprobs }] of beside.entries()) {
      const theirs = await one.score(concat(questions[member < 4 ? 0 : 1] as Int32Array, tokens));
      expect(largestDifference(logprobs, theirs.slice(-logprobs.length))).toBeLessThan(ROUNDING);
    }
    shared += beside.reduce((sum, { tokens }, member) => sum + sharedLength(tokens, alone[member]?.tokens ?? []), 0);
    drawn += beside.reduce((sum, { tokens }) => sum + tokens.length, 0);
    // The base and each adapter are themselves whenever they come.
    const score = await two.score(text);
    for (const [other, before] of scores) {
      const apart = largestDifference(score, before);
      if (other === adapter) expect(apart).toBeLessThan(ROUNDING);
      else expect(apart).toBeGreaterThan(2 * ROUNDING);
    }
    scores.set(adapter, score);
  }
  // By one seed they draw the same, until a random number is as near to the border of two tokens as rounding is: some 7 in 10 here.
  expect(shared / drawn).toBeGreaterThan(0.3);
  for (const engine of [one, two]) await close(engine);
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
  const engine = await untried({ steadyShapes: true, contextPerSequence: 1024 });
  const llama = await testEngine({ model: engine.info.model, name: "llama", contextPerSequence: 1024 });
  for (const one of [engine, llama]) await one.useAdapter(modelPath("qwen2-tiny-adapter-1.gguf"));
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
