/** Guessed tokens: the same comes out with them as without. */
import { describe, expect, it } from "vitest";
import { options } from "../../src/config/index.js";
import { type Engine, type EngineOptions, engineOptions, type GenerateOptions } from "../../src/engine/index.js";
import { adapterPath, close, concat, largestDifference, prompt, ROUNDING, testEngine } from "./support.js";

const turn = (maxTokens: number, seed: number, more: Partial<GenerateOptions> = {}): GenerateOptions => ({
  maxTokens,
  sampling: { seed },
  stop: [],
  ...more,
});

const start = prompt("what is written once is written again; what is written once ");
const answer = prompt("a tool's answer, which is written again");

/** The same three rollouts one after another, of two turns: the later ones repeat the first, so guesses come true. */
async function plays(engine: Engine, sampling: Partial<GenerateOptions["sampling"]> = {}) {
  const all: { tokens: number[]; logprobs: number[] }[] = [];
  for (const seed of [3, 3, 4]) {
    const sequence = engine.open(start);
    const limits = { sampling: { seed, ...sampling } };
    const one = await sequence.generate(turn(40, seed, limits));
    const two = await sequence.generate(
      turn(40, seed, { ...limits, append: answer, stop: [one.tokens[20] as number] }),
    );
    sequence.close();
    all.push({ tokens: [...one.tokens, ...two.tokens], logprobs: [...one.logprobs, ...two.logprobs] });
  }
  return all;
}

async function played(options: Partial<EngineOptions>, sampling: Partial<GenerateOptions["sampling"]> = {}) {
  const engine = await testEngine({ sequences: 1, ...options });
  const rollouts = await plays(engine, sampling);
  const stats = engine.stats();
  await close(engine);
  return { rollouts, stats };
}

describe("--draft", () => {
  it("becomes the engine's number of guesses", () => {
    const others = { model: "m.gguf", sequences: 1, contextPerSequence: 64 };
    const draft = (value?: string) => {
      const machine = { gpu: "off", device: undefined, threads: undefined } as const;
      return engineOptions(value === undefined ? machine : { ...machine, draft: value }, others);
    };
    expect(draft("3")).toEqual({ ...others, gpu: false, draft: 3 });
    expect(draft("off").draft).toBe(0);
    expect(draft("auto").draft).toBe("auto");
    expect(draft()).not.toHaveProperty("draft");
  });

  it("is auto, off, or a number from 1 to 16", () => {
    const fits = (value: unknown) => options.draft.schema.safeParse(value).success;
    expect(["auto", "off", "1", "16"].map(fits)).toEqual([true, true, true, true]);
    expect(["0", "17", "-1", "1.5", "", " ", "on", true].some(fits)).toBe(false);
  });
});

describe("guessed tokens", () => {
  it("change no bit of an exact rollout alone, however many there are", async () => {
    const without = await played({ exact: true });
    for (const draft of [1, 3, 16, "auto"] as const) {
      const { rollouts, stats } = await played({ exact: true, draft });
      expect(rollouts).toEqual(without.rollouts);
      expect(stats.accepted).toBeGreaterThan(0);
      expect(stats.drafted).toBeGreaterThanOrEqual(stats.accepted);
      expect(stats.decoded).toBe(without.stats.decoded);
    }
  });

  it("take fewer batches where they come true", async () => {
    const without = await played({});
    const { stats } = await played({ draft: 3 });
    expect(without.stats).toMatchObject({ drafted: 0, accepted: 0 });
    expect(stats.accepted).toBeGreaterThan(0);
    expect(stats.batches).toBe(without.stats.batches - stats.accepted);
  });

  it("are drawn with temperature, top-k, top-p and min-p as other tokens are", async () => {
    const sampling = { temperature: 0.7, topK: 20, topP: 0.9, minP: 0.02 };
    const without = await played({ exact: true }, sampling);
    const { rollouts, stats } = await played({ exact: true, draft: 4 }, sampling);
    expect(rollouts).toEqual(without.rollouts);
    expect(stats.accepted).toBeGreaterThan(0);
  });

  it("have the log-probabilities of their tokens in a batch, under an adapter and in a fork too", async () => {
    const engine = await testEngine({ draft: 3, sequences: 4 });
    for (const adapter of [null, adapterPath("guessed")]) {
      await engine.useAdapter(adapter);
      const group = engine.openGroup(start, 4);
      const results = await Promise.all(
        group.map(async (sequence, seed) => {
          const first = await sequence.generate(turn(30, seed % 2));
          const second = await sequence.generate(turn(20 + seed, seed % 2, { append: answer }));
          return { first, second };
        }),
      );
      for (const sequence of group) sequence.close();
      for (const { first, second } of results) {
        const all = concat(start, first.tokens, answer, second.tokens);
        const scored = await engine.score(all);
        const at = start.length - 1;
        const own = [...first.logprobs, ...second.logprobs];
        const theirs = [...scored.slice(at, at + 30), ...scored.slice(at + 30 + answer.length)];
        expect(largestDifference(own, theirs)).toBeLessThan(ROUNDING);
        const fork = engine.open(all);
        const more = await fork.generate(turn(10, 9));
        fork.close();
        const after = await engine.score(concat(all, more.tokens), { from: all.length });
        expect(largestDifference(more.logprobs, after)).toBeLessThan(ROUNDING);
      }
    }
    expect(engine.stats().accepted).toBeGreaterThan(0);
    await close(engine);
  });

  it("are heard one by one, and none after a turn was cancelled", async () => {
    const engine = await testEngine({ draft: 3, sequences: 1 });
    await plays(engine);
    const sequence = engine.open(start);
    const controller = new AbortController();
    const heard: number[] = [];
    const result = await sequence.generate(
      turn(400, 3, {
        signal: controller.signal,
        likeliest: 2,
        onToken: ({ token, logprob, own, likeliest }) => {
          heard.push(token);
          expect(own).toBeCloseTo(logprob, 4);
          expect(likeliest?.length).toBe(2);
          if (heard.length === 10) controller.abort();
        },
      }),
    );
    expect(result.tokens.length).toBeGreaterThanOrEqual(10);
    expect(heard).toEqual([...result.tokens]);
    const more = await sequence.generate(turn(5, 3));
    const all = concat(start, result.tokens, more.tokens);
    const scored = await engine.score(all, { from: all.length - 5 });
    expect(largestDifference(more.logprobs, scored)).toBeLessThan(ROUNDING);
    await close(engine);
  });

  it("are refused where there can be none", async () => {
    for (const draft of [-1, 1.5, 17]) {
      await expect(testEngine({ draft })).rejects.toThrow(
        `draft is ${draft}; it must be "auto" or a whole number from 0 to 16`,
      );
    }
    await expect(testEngine({ draft: 2, steadyShapes: true })).rejects.toThrow(
      "cannot be guessed (draft) with steadyShapes",
    );
    const steady = await testEngine({ draft: "auto", steadyShapes: true, sequences: 1 });
    await plays(steady);
    expect(steady.stats().drafted).toBe(0);
    await close(steady);
  });
});
