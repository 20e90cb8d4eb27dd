/** Pooled KV and batches of few shapes, which a GPU has by default: they change what is computed beside, not what comes out. */
import { describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import { SCORE_ROWS } from "../../src/engine/contexts.js";
import { evaluatesAPromptOnce, sleepsAndWakes } from "./behaviours.js";
import { adapterPath, close, largestDifference, prompt, ROUNDING, testEngine } from "./support.js";

const MEMBERS = 6;
const wide: Partial<LocalEngineOptions> = { sequences: MEMBERS, contextPerSequence: 512 };

/** Groups whose members have turns of different lengths, with answers of different lengths before some of them. */
async function play(engine: LocalEngine) {
  const members = ["the first", "the second"].flatMap((text) =>
    engine.openGroup(prompt(`${text} question `), MEMBERS / 2),
  );
  const conversations = members.map(async (member, seed) => {
    const turns = [];
    for (let turn = 0; turn < 6; turn++) {
      const answer = (turn + seed) % 3 === 2 ? { append: prompt("an answer ".repeat(1 + seed)) } : {};
      const maxTokens = 3 + ((seed * 7 + turn * 5) % 11);
      turns.push(await member.generate({ ...answer, maxTokens, sampling: { seed }, stop: [] }));
    }
    member.close();
    return turns;
  });
  return (await Promise.all(conversations)).flat();
}

describe.each([
  { pooledKv: false, steadyShapes: true },
  { pooledKv: true, steadyShapes: false },
  { pooledKv: true, steadyShapes: true },
])("with %o", async (shapes) => {
  const engine = await testEngine({ ...wide, ...shapes });
  const plain = await testEngine(wide);

  it("turns are the same", async () => {
    const [here, there] = [await play(engine), await play(plain)];
    expect(here.map(({ tokens }) => [...tokens])).toEqual(there.map(({ tokens }) => [...tokens]));
    here.forEach(({ logprobs }, i) => {
      expect(largestDifference(logprobs, there[i]?.logprobs ?? [])).toBeLessThan(ROUNDING);
    });
    expect(engine.stats().passes).toBe(engine.stats().batches);
  });

  it("a prompt is evaluated once, and sleep and adapters work", async () => {
    await evaluatesAPromptOnce(engine, { members: MEMBERS, length: 300 }, ROUNDING);
    await engine.useAdapter(adapterPath("shapes"));
    await sleepsAndWakes(engine, false, ROUNDING);
    await engine.sleep();
    await engine.wake({ sequences: 2 });
    await plain.useAdapter(adapterPath("shapes"));
    const [here, there] = [await play(engine), await play(plain)];
    expect(here.map(({ tokens }) => [...tokens])).toEqual(there.map(({ tokens }) => [...tokens]));
    await plain.useAdapter(null);
  });
});

it("a pool gives way where a context of all its sequences would have other factors of RoPE", async () => {
  await ensureTestModels(["tiny"], () => undefined);
  const file = modelPath("phi3-tiny-f32.gguf");
  const ids = Int32Array.from({ length: 100 }, (_, i) => (i * 37 + 11) % 1000);
  const scores = async (pooledKv: boolean) => {
    const engine = await testEngine({ ...wide, model: file, name: `pooled ${pooledKv}`, pooledKv });
    expect(engine.info.trainedContext).toBe(1024);
    const found = await engine.score(ids);
    await close(engine);
    return found;
  };
  expect(largestDifference(await scores(true), await scores(false))).toBeLessThan(ROUNDING);
});

describe("the graph of the batch before", () => {
  /** Two of six decode; the others join for one token now and then. */
  async function reused(shapes: Partial<LocalEngineOptions>): Promise<number> {
    const engine = await testEngine({ ...wide, ...shapes });
    const turn = (maxTokens: number, seed: number) => ({ maxTokens, sampling: { seed }, stop: [] });
    const members = engine.openGroup(prompt("a question "), MEMBERS);
    await Promise.all(members.map((member, seed) => member.generate(turn(1, seed))));
    const before = engine.stats();
    let over = false;
    const joining = (async () => {
      for (let at = 0; !over; at++) {
        await members[2 + (at % (MEMBERS - 2))]?.generate(turn(1, at));
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    })();
    await Promise.all(members.slice(0, 2).map((member, seed) => member.generate(turn(400, seed))));
    over = true;
    await joining;
    const after = engine.stats();
    await close(engine);
    return (after.graphsReused - before.graphsReused) / (after.passes - before.passes);
  }

  it("is kept in steady decoding, whoever joins for a token", async () => {
    // Of 400 batches one or two meet a step of llama.cpp's padded KV; in a pool six sequences meet it every 43 tokens.
    expect(await reused({ steadyShapes: true })).toBeGreaterThan(0.9);
    expect(await reused({ steadyShapes: true, pooledKv: true })).toBeGreaterThan(0.9);
  });
});

describe("passes of 2048 tokens", () => {
  /** A prompt of more than two passes of the usual length, and its last scores. */
  async function playLong(engine: LocalEngine) {
    const text = prompt(Array.from({ length: 150 }, (_, i) => `${100_000 + i * i} or `).join(""));
    const before = engine.stats();
    const logprobs = await engine.score(text, { from: text.length - 40 });
    const passes = engine.stats().passes - before.passes;
    const group = engine.openGroup(text, 3);
    const turns = group.map((member, seed) => member.generate({ maxTokens: 16, sampling: { seed }, stop: [] }));
    const results = await Promise.all(turns);
    for (const member of group) member.close();
    const tokens = results.map((one) => [...one.tokens]);
    return {
      length: text.length,
      passes,
      tokens,
      logprobs: [...logprobs, ...results.flatMap((one) => [...one.logprobs])],
    };
  }

  it("compute what passes of 512 do, with adapters, before and after sleep", async () => {
    const pool = { pooledKv: true, steadyShapes: true, contextPerSequence: 2048 };
    const [long, usual] = [await testEngine({ ...pool, ubatch: 2048 }), await testEngine(pool)];
    expect([long.info.ubatch, usual.info.ubatch]).toEqual([2048, 512]);
    const seen = new Set<string>();
    for (const adapter of [null, adapterPath("long")]) {
      for (const engine of [long, usual]) await engine.useAdapter(adapter);
      for (const slept of [false, true]) {
        for (const engine of slept ? [long, usual] : []) {
          await engine.sleep({ weights: true });
          await engine.wake();
        }
        const [here, there] = [await playLong(long), await playLong(usual)];
        expect([here.length, here.passes, there.passes]).toEqual([1500, 1, 3]);
        expect(here.tokens).toEqual(there.tokens);
        expect(largestDifference(here.logprobs, there.logprobs)).toBeLessThan(ROUNDING);
        seen.add(here.tokens.join(" "));
      }
    }
    expect(seen.size).toBe(2);
    await Promise.all([long, usual].map(close));
  });
});

describe("a pool", () => {
  it("holds all sequences at their full length, with padding beside them", async () => {
    const engine = await testEngine({ sequences: 3, contextPerSequence: 256, pooledKv: true, steadyShapes: true });
    expect(engine.memory().kv).toBe(3 * engine.memory().kvPerSequence + (512 / 256) * engine.memory().kvPerSequence);
    const members = Array.from({ length: 3 }, (_, seed) => engine.open(prompt(`${seed}`.repeat(100 + 7 * seed))));
    const turns = members.map((one, seed) => one.generate({ maxTokens: 300, sampling: { seed }, stop: [] }));
    for (const { stop } of await Promise.all(turns)) expect(stop).toBe("context");
    await close(engine);
  });

  it("has more sequences than rows of logits, as padding has ids of llama.cpp's too", async () => {
    const sequences = SCORE_ROWS + 1;
    const engine = await testEngine({ sequences, lanes: 1, contextPerSequence: 64, pooledKv: true });
    const { stop } = await engine.open(prompt("a")).generate({ maxTokens: 2, sampling: { seed: 1 }, stop: [] });
    expect(stop).toBe("length");
    await close(engine);
  });

  it("has half as many sequences as llama.cpp, as padding has the others", async () => {
    await expect(testEngine({ sequences: 129, lanes: 1, pooledKv: true })).rejects.toThrow(
      "129 sequences at once are too many: llama.cpp evaluates at most 128 in one context;",
    );
  });
});
