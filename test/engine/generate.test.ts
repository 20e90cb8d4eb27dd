import { describe, expect, it } from "vitest";
import { evaluatesAPromptOnce, evaluatesOnlyWhatIsAppended, keepsWhatItHasWhenCancelled } from "./behaviours.js";
import { adapterPath, close, concat, largestDifference, prompt, ROUNDING, testEngine } from "./support.js";
import { tiny } from "./tiny-model.js";

const sampling = (seed: number) => ({ seed });
const never: number[] = [];

describe("a turn", async () => {
  const engine = await testEngine();
  /** Has room for a turn that no machine ends within milliseconds. */
  const long = await testEngine({ sequences: 1, contextPerSequence: tiny.context });

  it("repeats exactly with the same seed, and differs with another", async () => {
    const play = async (seed: number) => {
      const sequence = engine.open(prompt("the same prompt"));
      const { tokens } = await sequence.generate({ maxTokens: 60, sampling: sampling(seed), stop: never });
      sequence.close();
      return [...tokens];
    };
    const first = await play(5);
    expect(first).toHaveLength(60);
    expect(await play(5)).toEqual(first);
    expect(await play(6)).not.toEqual(first);
  });

  it("reports the logprobs of what it sampled, under the distribution it was drawn from", async () => {
    const start = prompt("logprobs");
    const sequence = engine.open(start);
    const hot = await sequence.generate({ maxTokens: 40, sampling: { temperature: 1.7, seed: 1 }, stop: never });
    const scored = await engine.score(concat(start, hot.tokens), { from: start.length });
    expect(largestDifference(hot.logprobs, scored)).toBeGreaterThan(0.1);

    const plain = await sequence.generate({ maxTokens: 20, sampling: sampling(2), stop: never });
    const all = concat(start, hot.tokens, plain.tokens);
    expect(largestDifference(plain.logprobs, await engine.score(all, { from: all.length - 20 }))).toBeLessThan(
      ROUNDING,
    );
    const greedy = await sequence.generate({ maxTokens: 20, sampling: { temperature: 0, seed: 2 }, stop: never });
    expect(Math.max(...greedy.logprobs.map(Math.abs))).toBe(0);
    sequence.close();
  });

  it("ends at a stop token, which it keeps", async () => {
    const sequence = engine.open(prompt("stop"));
    const stop = Array.from({ length: 128 }, (_, id) => 2 * id);
    const result = await sequence.generate({ maxTokens: 200, sampling: sampling(3), stop });
    expect(result.stop).toBe("stop");
    expect([...result.tokens].map((token) => stop.includes(token))).toEqual([
      ...Array(result.tokens.length - 1).fill(false),
      true,
    ]);
    sequence.close();
  });

  it("ends at maxTokens, and goes on from there", async () => {
    const start = prompt("a conversation");
    const whole = engine.open(start);
    const all = await whole.generate({ maxTokens: 30, sampling: sampling(4), stop: never });
    const parts = engine.open(start);
    const first = await parts.generate({ maxTokens: 10, sampling: sampling(4), stop: never });
    expect(first.stop).toBe("length");
    expect(parts.length).toBe(start.length + 10);
    const second = await parts.generate({ maxTokens: 20, sampling: sampling(4), stop: never });
    expect([...first.tokens, ...second.tokens]).toEqual([...all.tokens]);
    whole.close();
    parts.close();
  });

  it("evaluates only what is appended between turns", () => evaluatesOnlyWhatIsAppended(engine, 200, ROUNDING));

  it("ends when the context is full, and does not append what leaves no room", async () => {
    const sequence = engine.open(prompt("y".repeat(500)));
    const full = { append: prompt("z".repeat(12)), maxTokens: 10, sampling: sampling(6), stop: never };
    const none = await sequence.generate(full);
    expect(none.stop).toBe("context");
    expect(none.tokens).toHaveLength(0);
    expect(sequence.length).toBe(500);
    const rest = await sequence.generate({ maxTokens: 100, sampling: sampling(6), stop: never });
    expect(rest.stop).toBe("context");
    expect(rest.tokens).toHaveLength(12);
    sequence.close();
  });

  it("can be cancelled, and keeps what it has sampled", async () => {
    await keepsWhatItHasWhenCancelled(long, ROUNDING);
    const aborted = long.open(prompt("cancel me"));
    // So many that the turn has not ended before it hears of its signal.
    const turn = { maxTokens: 4000, sampling: sampling(7), stop: never, signal: AbortSignal.abort() };
    expect((await aborted.generate(turn)).stop).toBe("cancelled");
    aborted.close();
  });

  it("ends when its seconds are used up, which are those of its own batches", async () => {
    const sequence = long.open(prompt("late"));
    const turn = { maxTokens: 4000, sampling: sampling(8), stop: never };
    const late = await sequence.generate({ ...turn, seconds: 0.005 });
    expect(late.stop).toBe("deadline");
    expect(late.usedSeconds).toBeGreaterThanOrEqual(0.005);
    expect((await sequence.generate({ ...turn, maxTokens: 3, seconds: 3600 })).stop).toBe("length");
    sequence.close();
  });

  it("says how long it waited for a slot", async () => {
    const narrow = await testEngine({ sequences: 1, contextPerSequence: 8192 });
    const one = narrow.open(prompt("the first"));
    // Has the slot for as long as this test wants it to.
    const holds = new AbortController();
    const first = one.generate({ maxTokens: 8000, sampling: sampling(9), stop: never, signal: holds.signal });
    const two = narrow.open(prompt("the second"));
    // It waits for longer than that.
    const second = two.generate({ maxTokens: 5, sampling: sampling(9), stop: never, seconds: 0.001 });
    await new Promise((resolve) => setTimeout(resolve, 15));
    holds.abort();
    expect((await first).stop).toBe("cancelled");
    one.close();
    const kept = await second;
    expect(kept.tokens.length).toBeGreaterThan(0);
    expect(kept.waitedSeconds).toBeGreaterThan(0.001);
    const asked = performance.now();
    const free = await two.generate({ maxTokens: 100, sampling: sampling(9), stop: never });
    expect(free.waitedSeconds).toBeLessThan((performance.now() - asked) / 1000);
    two.close();
  });

  it("ends when its sequence is closed", async () => {
    const sequence = long.open(prompt("closed"));
    const turn = sequence.generate({ maxTokens: 4000, sampling: sampling(9), stop: never });
    sequence.close();
    expect((await turn).stop).toBe("cancelled");
    await expect(sequence.generate({ maxTokens: 1, sampling: sampling(9), stop: never })).rejects.toThrow(
      "the sequence is closed",
    );
  });

  it("refuses a second turn while one runs, values out of range, and ids that do not exist", async () => {
    const sequence = long.open(prompt("twice"));
    const turn = { maxTokens: 4000, sampling: sampling(10), stop: never };
    const running = sequence.generate(turn);
    await expect(sequence.generate(turn)).rejects.toThrow("has a turn already");
    expect((await running).stop).toBe("length");
    await expect(sequence.generate({ ...turn, maxTokens: 0 })).rejects.toThrow("maxTokens is 0");
    await expect(sequence.generate({ ...turn, sampling: { seed: -1 } })).rejects.toThrow("seed is -1");
    await expect(sequence.generate({ ...turn, sampling: { seed: 1, topP: 1.5 } })).rejects.toThrow("topP is 1.5");
    const append = Int32Array.of(tiny.vocabulary);
    await expect(sequence.generate({ ...turn, append })).rejects.toThrow("token 261 of append does not exist");
    sequence.close();
  });
});

describe("a group", async () => {
  it.each([1, 3, 8])("evaluates its prompt once, with %i slots", async (sequences) => {
    const engine = await testEngine({ sequences });
    await evaluatesAPromptOnce(engine, { members: 8, length: 300 }, ROUNDING);
    await close(engine);
  });

  it("shares what different prompts have in common", async () => {
    const engine = await testEngine({ sequences: 4 });
    const system = "s".repeat(200);
    const before = engine.stats();
    const sequences = ["one", "two", "three"].map((user) => engine.open(prompt(system + user)));
    await Promise.all(
      sequences.map((sequence, seed) => sequence.generate({ maxTokens: 3, sampling: sampling(seed), stop: never })),
    );
    const after = engine.stats();
    expect(after.reused - before.reused).toBeGreaterThanOrEqual(2 * 200);
    for (const sequence of sequences) sequence.close();
    await close(engine);
  });

  it("refuses a prompt that can never fit, with the numbers", async () => {
    const engine = await testEngine({ contextPerSequence: 100 });
    expect(() => engine.openGroup(prompt("x".repeat(100)), 2)).toThrow(
      "the prompt has 100 tokens; it must have from 1 to 99",
    );
    expect(() => engine.open(new Int32Array())).toThrow("the prompt has 0 tokens; it must have from 1 to 99");
    expect(() => engine.open(Int32Array.of(-1))).toThrow("token -1 of the prompt does not exist");
    await expect(engine.score(prompt("x".repeat(101)))).rejects.toThrow(
      "101 tokens cannot be scored; it takes from 2 to 100",
    );
    await close(engine);
  });
});

describe("a batch", () => {
  it("holds a token of every sequence that runs: four take a quarter of the batches", async () => {
    const engine = await testEngine({ sequences: 5, contextPerSequence: 8192 });
    const adapter = adapterPath("between");
    const turn = (maxTokens: number, seed: number) => ({ maxTokens, sampling: sampling(seed), stop: never });
    // The four are asked for behind a turn, which is ended then, and the change of adapter that waits for it: they begin
    // together.
    const asked = new AbortController();
    const before = engine.open(prompt("before ")).generate({ ...turn(8000, 0), signal: asked.signal });
    const changed = engine.useAdapter(adapter);
    const four = engine.openGroup(prompt("together "), 4).map((member, seed) => member.generate(turn(100, seed)));
    asked.abort();
    const { tokens } = await before;
    await Promise.all([changed, ...four]);
    const { decoded, batches } = engine.stats();
    expect(decoded).toBe(tokens.length + 4 * 100);
    // Prompts, and each member's last token of it, may take a batch of their own.
    expect(batches).toBeLessThanOrEqual(tokens.length + 100 + 10);
    await close(engine);
  });
});

describe("more sequences than slots", async () => {
  it("wait for each other, and give way between turns", async () => {
    const engine = await testEngine({ sequences: 2 });
    const play = async (seed: number) => {
      const start = prompt(`sequence ${seed} `);
      const sequence = engine.open(start);
      const first = await sequence.generate({ maxTokens: 10, sampling: sampling(seed), stop: never });
      // Never closed before all have had their first turn: without giving way, this would wait for ever.
      return { start, sequence, first, seed };
    };
    const all = await Promise.all([0, 1, 2, 3, 4].map(play));
    expect(engine.stats().evicted).toBeGreaterThan(0);
    for (const { start, sequence, first, seed } of all) {
      const second = await sequence.generate({ maxTokens: 10, sampling: sampling(seed), stop: never });
      const scored = await engine.score(concat(start, first.tokens, second.tokens), { from: start.length });
      expect(largestDifference(concatFloats(first.logprobs, second.logprobs), scored)).toBeLessThan(ROUNDING);
      sequence.close();
    }
    await close(engine);
  });
});

function concatFloats(...parts: Float32Array[]): number[] {
  return parts.flatMap((part) => [...part]);
}
