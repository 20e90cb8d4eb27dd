/** The sampler over a vocabulary of Qwen's size, where single-precision sums over all of it would be seen. */
import { describe, expect, it } from "vitest";
import { Random } from "../../src/core/util/random.js";
import { loadAddon } from "../../src/engine/addon.js";
import { completeSampling } from "../../src/engine/native.js";

const SIZE = 152_064;
const SEED = 11;
const addon = loadAddon();

/** Half a unit in the last place of 1: the largest relative error of one operation in single precision. */
const ROUNDING = 2 ** -24;

/**
 * Bound of the relative error of a sum of exponentials of float logits within `spread` below their peak: 64 additions
 * (vector_math.h), the polynomial's own error of about 2 roundings and as many for its evaluation, and that of its
 * argument, which is rounded twice and is as large as `spread`.
 */
const sumError = (spread: number) => ROUNDING * (64 + 4 + 2 * spread);
/** Of a log-probability: its sum, the rounded distance to the peak, and the rounded result. */
const logprobError = (spread: number) => sumError(spread) + ROUNDING * (2 * spread + 2 * (spread + Math.log(SIZE)));

/** `uniform` of native/engine/sampling.cc, from its definition. */
function uniform(seed: bigint, position: number): number {
  const wrap = (x: bigint) => BigInt.asUintN(64, x);
  const mix = (x: bigint) => {
    let y = wrap((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n);
    y = wrap((y ^ (y >> 27n)) * 0x94d049bb133111ebn);
    return y ^ (y >> 31n);
  };
  const golden = 0x9e3779b97f4a7c15n;
  return Number(mix(wrap(mix(wrap(seed + golden)) + golden * BigInt(position + 1))) >> 11n) * 2 ** -53;
}

interface Row {
  name: string;
  logits: Float32Array;
}

const random = new Random("vocabulary");
const bell = () => random.float() + random.float() + random.float() - 1.5;
const rows: Row[] = [
  { name: "flat", logits: Float32Array.from({ length: SIZE }, () => 0.1 * bell()) },
  { name: "a language model's", logits: Float32Array.from({ length: SIZE }, () => 6 * bell()) },
  // Each addition to a large single-precision sum would be rounded the same way.
  { name: "a peak over equals", logits: new Float32Array(SIZE).fill(-1.5).fill(0, 77_777, 77_778) },
];

const peakOf = (logits: Float32Array) => logits.reduce((peak, logit) => Math.max(peak, logit));
const spreadOf = (logits: Float32Array) => peakOf(logits) - logits.reduce((least, logit) => Math.min(least, logit));

/** Weights exp((logit - peak) / temperature) and their sum, in double precision. */
function weigh(logits: Float32Array, temperature = 1): { weights: Float64Array; total: number } {
  const peak = peakOf(logits);
  const weights = Float64Array.from(logits, (logit) => Math.exp((logit - peak) / temperature));
  return { weights, total: weights.reduce((sum, weight) => sum + weight, 0) };
}

describe.each(rows)("152,064 tokens, $name", ({ logits }) => {
  const { weights, total } = weigh(logits);
  const spread = spreadOf(logits);
  const sampling = completeSampling({ seed: SEED });
  const COUNT = 3000;
  const drawn = addon.draw(logits, sampling, COUNT);

  it("are drawn by inversion: each where the running sum passes the same uniform number", () => {
    // Both ends of a token's interval are known up to the errors of the sum before them and of the whole: about one
    // token's width where all are alike.
    const tolerance = 2 * sumError(spread);
    const before = new Float64Array(SIZE + 1);
    for (let i = 0; i < SIZE; i++) before[i + 1] = (before[i] as number) + (weights[i] as number) / total;
    const misplaced = drawn.tokens.filter((token, i) => {
      const at = uniform(BigInt(SEED), i);
      return at < (before[token] as number) - tolerance || at > (before[token + 1] as number) + tolerance;
    });
    expect([...misplaced]).toEqual([]);
    expect(new Set(drawn.tokens).size).toBeGreaterThan(COUNT / 4);
  });

  it("have the log-probability of a softmax in double precision, up to rounding", () => {
    const peak = peakOf(logits);
    let worst = 0;
    drawn.tokens.forEach((token, i) => {
      const exact = (logits[token] as number) - peak - Math.log(total);
      worst = Math.max(worst, Math.abs((drawn.logprobs[i] as number) - exact));
    });
    expect(worst).toBeLessThan(logprobError(spread));
  });

  it("fall into ranges of ids as their probability says", () => {
    const RANGES = 64;
    const counts = Array<number>(RANGES).fill(0);
    const expected = Array<number>(RANGES).fill(0);
    const rangeOf = (token: number) => Math.floor((token * RANGES) / SIZE);
    for (const token of drawn.tokens) counts[rangeOf(token)] = (counts[rangeOf(token)] as number) + 1;
    weights.forEach((weight, token) => {
      expected[rangeOf(token)] = (expected[rangeOf(token)] as number) + (weight / total) * COUNT;
    });
    const chi = counts.reduce(
      (sum, count, i) => sum + (count - (expected[i] as number)) ** 2 / (expected[i] as number),
      0,
    );
    // In standard deviations of χ² from its mean.
    expect(Math.abs(chi - (RANGES - 1)) / Math.sqrt(2 * (RANGES - 1))).toBeLessThan(5);
  });
});

interface Cut {
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
}

/** What is left of the likeliest tokens, in order, by the definition; each cut may be a token off for rounding. */
function kept({ weights, total }: ReturnType<typeof weigh>, { topK = 0, topP = 1, minP = 0 }: Cut): number[] {
  const order = Array.from(weights.keys()).sort((a, b) => (weights[b] as number) - (weights[a] as number) || a - b);
  let left = topK > 0 ? order.slice(0, topK) : order;
  if (topP < 1) {
    const target = topP * (topK > 0 ? left.reduce((sum, token) => sum + (weights[token] as number), 0) : total);
    let mass = 0;
    const crossing = left.findIndex((token) => {
      mass += weights[token] as number;
      return mass >= target;
    });
    left = left.slice(0, crossing + 1);
  }
  return left.filter((token) => (weights[token] as number) >= minP);
}

const cuts: Cut[] = [
  { topK: 40 },
  { topK: 5000 },
  { topP: 0.5 },
  { topP: 0.95 },
  { minP: 0.05 },
  { temperature: 0.7, topK: 1000, topP: 0.9, minP: 0.01 },
];

describe("152,064 tokens, cut short", () => {
  const { logits } = rows[1] as Row;
  const COUNT = 400;

  it.each(cuts)("hold the likeliest and nothing else: %o", (cut) => {
    const { temperature = 1 } = cut;
    const spread = spreadOf(logits) / temperature;
    const weighed = weigh(logits, temperature);
    const tokens = kept(weighed, cut);
    const mass = tokens.reduce((sum, token) => sum + (weighed.weights[token] as number), 0);
    // Rounding of the target moves the last token kept by this much of the mass, and one token beyond.
    const last = weighed.weights[tokens.at(-1) as number] as number;
    const error = 2 * sumError(spread) + (2 * last) / mass;
    const known = new Set(tokens);
    const drawn = addon.draw(logits, completeSampling({ ...cut, seed: SEED }), COUNT);
    const peak = peakOf(logits);
    let worst = 0;
    const least = last * (1 - 4 * error);
    const counts = [0, 0];
    // The likelier tokens that hold half of the mass, against the rest.
    let half = 0;
    const heads = new Set(
      tokens.filter((token) => {
        half += weighed.weights[token] as number;
        return half <= mass / 2;
      }),
    );
    drawn.tokens.forEach((token, i) => {
      if (!known.has(token)) expect(weighed.weights[token]).toBeGreaterThanOrEqual(least);
      const exact = ((logits[token] as number) - peak) / temperature - Math.log(mass);
      worst = Math.max(worst, Math.abs((drawn.logprobs[i] as number) - exact));
      counts[heads.has(token) ? 0 : 1] = (counts[heads.has(token) ? 0 : 1] as number) + 1;
    });
    expect(worst).toBeLessThan(logprobError(spread) + error);
    const share = [...heads].reduce((sum, token) => sum + (weighed.weights[token] as number), 0) / mass;
    const deviation = Math.sqrt(COUNT * share * (1 - share));
    expect(Math.abs((counts[0] as number) - COUNT * share)).toBeLessThan(5 * deviation);
  });
});

it("takes a temperature whose reciprocal is no number for 0", () => {
  const { logits } = rows[1] as Row;
  const best = logits.indexOf(peakOf(logits));
  for (const temperature of [1e-39, 1e-300]) {
    const { tokens, logprobs } = addon.draw(logits, completeSampling({ temperature, seed: SEED }), 3);
    expect([...tokens]).toEqual([best, best, best]);
    expect([...logprobs]).toEqual([0, 0, 0]);
  }
});
