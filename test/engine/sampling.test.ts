/** The sampler alone, against the distribution written down directly from its definition. */
import { describe, expect, it } from "vitest";
import { Random } from "../../src/core/util/random.js";
import { loadAddon } from "../../src/engine/addon.js";
import { completeSampling } from "../../src/engine/native.js";

/** More among the slower tests. */
const DRAWS = process.env.TEST_FULL ? 100_000 : 20_000;
const addon = loadAddon();

interface Case {
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
}

/** Probabilities after temperature, top-k, top-p and min-p, in this order, each applied to what is left. */
function distribution(logits: Float32Array, { temperature = 1, topK = 0, topP = 1, minP = 0 }: Case): number[] {
  const peak = Math.max(...logits);
  const weights = Array.from(logits, (logit) => Math.exp((logit - peak) / temperature));
  let kept = weights
    .map((weight, token) => ({ weight, token }))
    .sort((a, b) => b.weight - a.weight || a.token - b.token);
  if (topK > 0) kept = kept.slice(0, topK);
  const total = kept.reduce((sum, { weight }) => sum + weight, 0);
  let mass = 0;
  let count = 0;
  while (count < kept.length && (count === 0 || mass < topP * total))
    mass += (kept[count++] as { weight: number }).weight;
  if (topP < 1) kept = kept.slice(0, count);
  kept = kept.filter(({ weight }) => weight >= minP);
  const left = kept.reduce((sum, { weight }) => sum + weight, 0);
  const probabilities = Array<number>(logits.length).fill(0);
  for (const { weight, token } of kept) probabilities[token] = weight / left;
  return probabilities;
}

/** χ² of counts, tokens that are expected fewer than 10 times taken together, in standard deviations from its mean. */
function deviation(counts: number[], probabilities: number[]): number {
  let chi = 0;
  let cells = 0;
  let rareCount = 0;
  let rare = 0;
  const add = (count: number, expected: number) => {
    chi += (count - expected) ** 2 / expected;
    cells++;
  };
  probabilities.forEach((probability, token) => {
    const expected = probability * DRAWS;
    if (expected >= 10) add(counts[token] as number, expected);
    else {
      rare += expected;
      rareCount += counts[token] as number;
    }
  });
  if (rare >= 10) add(rareCount, rare);
  const freedom = cells - 1;
  return (chi - freedom) / Math.sqrt(2 * freedom);
}

function randomLogits(size: number, spread: number): Float32Array {
  const random = new Random("logits", size);
  return Float32Array.from({ length: size }, () => spread * (random.float() + random.float() + random.float() - 1.5));
}

const cases: Case[] = [
  {},
  { temperature: 0.5 },
  { temperature: 1.8 },
  { topK: 1 },
  { topK: 40 },
  { topK: 1_000_000 },
  { topP: 0.5 },
  { topP: 0.95 },
  { minP: 0.05 },
  { temperature: 0.7, topK: 100, topP: 0.9, minP: 0.02 },
  { temperature: 1.4, topK: 20, topP: 0.8 },
];

// The sampler works through larger vocabularies in chunks.
const sizes = [
  { size: 50, cases },
  { size: 400, cases },
  { size: 5000, cases: cases.slice(0, 2) },
];

describe.each(sizes)("draws from $size tokens", ({ size, cases }) => {
  const logits = randomLogits(size, 4);
  it.each(cases)("follow the softmax: %o", (parameters) => {
    const { tokens, logprobs } = addon.draw(logits, completeSampling({ ...parameters, seed: 11 }), DRAWS);
    const probabilities = distribution(logits, parameters);
    const counts = Array<number>(size).fill(0);
    let worst = 0;
    tokens.forEach((token, i) => {
      counts[token] = (counts[token] as number) + 1;
      worst = Math.max(worst, Math.abs((logprobs[i] as number) - Math.log(probabilities[token] as number)));
    });
    expect(worst).toBeLessThan(1e-4);
    expect(counts.filter((count, token) => count > 0 && probabilities[token] === 0)).toEqual([]);
    if (probabilities.filter((probability) => probability > 0).length > 1) {
      expect(Math.abs(deviation(counts, probabilities))).toBeLessThan(5);
    }
  });

  it("follow different seeds differently and the same seed equally", () => {
    const draw = (seed: number) => [...addon.draw(logits, completeSampling({ seed }), 200).tokens];
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
  });
});

describe("the sampler", () => {
  it("takes the likeliest token at temperature 0", () => {
    const logits = randomLogits(5000, 4);
    const { tokens, logprobs } = addon.draw(logits, completeSampling({ temperature: 0, seed: 1 }), 3);
    const best = logits.indexOf(Math.max(...logits));
    expect([...tokens]).toEqual([best, best, best]);
    expect([...logprobs]).toEqual([0, 0, 0]);
  });

  it("never draws a token whose logit is minus infinity", () => {
    const logits = Float32Array.of(-Infinity, 0, -Infinity, 0, -200);
    const { tokens } = addon.draw(logits, completeSampling({ seed: 1 }), 10_000);
    expect([...new Set(tokens)].sort()).toEqual([1, 3]);
  });

  it("says so when logits are not finite, instead of drawing something", () => {
    for (const bad of [Number.NaN, Infinity]) {
      const logits = randomLogits(100, 2);
      logits[50] = bad;
      for (const parameters of cases) {
        expect([...addon.draw(logits, completeSampling({ ...parameters, seed: 1 }), 2).tokens]).toEqual([-1, -1]);
      }
    }
  });

  it("refuses parameters out of range", () => {
    for (const bad of [{ temperature: -1 }, { temperature: Number.NaN }, { topK: 1.5 }, { minP: 2 }, { topP: -0.1 }]) {
      expect(() => addon.draw(randomLogits(5, 1), completeSampling({ ...bad, seed: 1 }), 1)).toThrow(RangeError);
    }
  });
});
