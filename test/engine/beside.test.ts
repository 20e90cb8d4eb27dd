/** Engines of one file with different names, and what a turn tells while it is sampled. */
import { expect, test } from "vitest";
import { HoneError } from "../../src/core/util/errors.js";
import { hasAnAdapterOfItsOwn } from "./behaviours.js";
import { adapterPath, close, largestDifference, newModel, options, prompt, ROUNDING, testEngine } from "./support.js";

test("engines of one file with different names share its weights, and have an adapter each", async () => {
  const model = newModel();
  const trained = await testEngine({ model });
  const base = await testEngine({ model, name: "base", sequences: 2 });
  await hasAnAdapterOfItsOwn(trained, base, adapterPath("beside"), ROUNDING);
  const tokens = prompt("The same text for both.");
  const before = await base.score(tokens);
  // The weights stay for the one that is left.
  await close(trained);
  expect(largestDifference(await base.score(tokens), before)).toBeLessThan(ROUNDING);
  await close(base);
});

test("engines of one file whose threads meet at barriers take turns on a CPU: neither changes the other, or keeps it", async () => {
  const [model, lane] = [newModel(), { lanes: 1, threads: 2, sequences: 2 }];
  const one = await testEngine({ model, ...lane });
  const other = await testEngine({ model, name: "base", ...lane });
  const play = async (engine: typeof one, seed: number) => {
    const sequence = engine.open(prompt("Once"));
    const { tokens } = await sequence.generate({ maxTokens: 8, sampling: { seed }, stop: [] });
    sequence.close();
    return [...tokens];
  };
  // From whose cells the others begin.
  await Promise.all([play(one, 1), play(other, 1)]);
  const alone = [await play(one, 2), await play(other, 3)];
  expect(await Promise.all([play(one, 2), play(other, 3)])).toEqual(alone);
  const left = play(one, 2);
  await close(other);
  expect(await left).toEqual(alone[0]);
  await close(one);
});

test("a turn tells each token before it ends, with the likeliest ones under the raw softmax", async () => {
  const engine = await testEngine(options());
  const start = prompt("Once upon");
  const heard: { token: number; logprob: number; own?: number; likeliest?: readonly { logprob: number }[] }[] = [];
  const { tokens, logprobs } = await engine.open(start).generate({
    maxTokens: 12,
    sampling: { seed: 5, temperature: 2 },
    stop: [],
    likeliest: 3,
    onToken: (sampled) => heard.push(sampled),
  });
  expect(heard.map(({ token }) => token)).toEqual([...tokens]);
  expect(heard.map(({ logprob }) => logprob)).toEqual([...logprobs]);
  const scored = await engine.score(Int32Array.from([...start, ...tokens]), { from: start.length });
  expect(
    largestDifference(
      heard.map(({ own }) => own as number),
      scored,
    ),
  ).toBeLessThan(ROUNDING);
  for (const { own, likeliest = [] } of heard) {
    const [first, second, third] = likeliest.map(({ logprob }) => logprob) as [number, number, number];
    expect(likeliest).toHaveLength(3);
    expect(first >= second && second >= third && first >= (own as number)).toBe(true);
  }
  const likeliest: unknown[] = [];
  const greedy = await engine.open(start).generate({
    maxTokens: 4,
    sampling: { seed: 0, temperature: 0 },
    stop: [],
    likeliest: 1,
    onToken: (sampled) => likeliest.push(sampled.likeliest?.[0]?.token),
  });
  expect(likeliest).toEqual([...greedy.tokens]);
  const refused = engine.open(start).generate({ maxTokens: 1, sampling: { seed: 0 }, stop: [], likeliest: 1025 });
  await expect(refused).rejects.toThrow(HoneError);
});
