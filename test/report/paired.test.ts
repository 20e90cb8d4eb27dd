import { describe, expect, it } from "vitest";
import { wilson } from "../../src/core/run/interval.js";
import { mcNemar, pairedMeans, pairedShares, tango } from "../../src/insight/report/paired.js";

const Z = 1.959963984540054;

/** Rewards of 60 scenarios, thousandths. */
const FIRST = [
  512, 950, 144, 949, 312, 423, 828, 409, 550, 28, 754, 538, 330, 788, 303, 453, 134, 403, 203, 262, 750, 280, 485, 981,
  962, 725, 541, 277, 161, 970, 516, 116, 623, 777, 613, 917, 40, 529, 459, 62, 641, 853, 593, 260, 840, 509, 511, 753,
  148, 820, 683, 787, 192, 802, 191, 82, 855, 861, 877, 472,
];
const SECOND = [
  518, 1066, 326, 754, 80, 583, 788, 580, 878, -367, 930, 1005, 341, 645, 629, 629, 503, 399, -142, 329, 716, 613, 643,
  592, 703, 1090, 845, 185, 261, 1204, 757, 479, 800, 849, 635, 1334, -535, 587, 569, -266, 841, 758, 952, 322, 1141,
  975, 726, 590, -206, 1446, 750, 680, 335, 845, 547, 192, 959, 747, 1118, 262,
];

/** Every resample of a few differences: the distribution that the bootstrap draws from. */
function exactMeans(differences: readonly number[]): number[] {
  const n = differences.length;
  return Array.from({ length: n ** n }, (_, code) => {
    let sum = 0;
    for (let i = 0, rest = code; i < n; i++, rest = Math.floor(rest / n)) sum += differences[rest % n] as number;
    return sum / n;
  }).sort((a, b) => a - b);
}

/**
 * Score of a true difference by its definition: the likelihood of a pair's three outcomes (first alone, second alone,
 * alike) is made as large as the difference allows, by going through all shares.
 */
function scoreByHand(first: number, second: number, n: number, delta: number): number {
  let best = { likelihood: Number.NEGATIVE_INFINITY, alone: 0 };
  const most = (1 - delta) / 2;
  const term = (count: number, share: number) => (count === 0 ? 0 : count * Math.log(share));
  for (let i = 0; i <= 200_000; i++) {
    const alone = Math.max(0, -delta) + ((most - Math.max(0, -delta)) * i) / 200_000;
    const likelihood =
      term(first, alone) + term(second, alone + delta) + term(n - first - second, 1 - 2 * alone - delta);
    if (likelihood > best.likelihood) best = { likelihood, alone };
  }
  return (second - first - n * delta) / Math.sqrt(n * (2 * best.alone + delta - delta * delta));
}

describe("McNemar's exact test", () => {
  it("is the two-sided binomial test of the pairs that differ", () => {
    // scipy.stats.binomtest(k, n).pvalue of SciPy 1.17.1.
    expect(mcNemar(1, 7)).toBeCloseTo(0.0703125, 12);
    expect(mcNemar(15, 4)).toBeCloseTo(0.0192108154296875, 12);
    expect(mcNemar(12, 25)).toBeCloseTo(0.04703102743951604, 12);
    expect(mcNemar(450, 550)).toBeCloseTo(0.0017305360849763027, 12);
  });

  it("finds nothing where nothing differs, or both win as often", () => {
    expect(mcNemar(0, 0)).toBe(1);
    expect(mcNemar(6, 6)).toBe(1);
  });

  it("holds for more pairs than a floating number can halve", () => {
    expect(mcNemar(900, 1100) / 8.45708953550381e-6).toBeCloseTo(1, 9);
  });
});

describe("Tango's interval", () => {
  it("is that of Fagerland, Lydersen & Laake (2014) for the airway data of Bentur et al.", () => {
    // 21 pairs: 7 solved by the second alone, 1 by the first alone.
    const { low, high } = tango(7, 1, 21);
    expect([low, high].map((value) => Number(value.toFixed(3)))).toEqual([-0.517, -0.026]);
  });

  it.each([
    [3, 2, 14],
    [0, 5, 14],
    [12, 25, 200],
    [1, 0, 30],
  ])("ends where the score by its definition is 1.96 (%i, %i of %i)", (first, second, n) => {
    const { low, high } = tango(first, second, n);
    expect(scoreByHand(first, second, n, low)).toBeCloseTo(Z, 2);
    expect(scoreByHand(first, second, n, high)).toBeCloseTo(-Z, 2);
  });

  it("turns round with its players", () => {
    const { low, high } = tango(3, 9, 40);
    const turned = tango(9, 3, 40);
    expect(turned.low).toBeCloseTo(-high, 9);
    expect(turned.high).toBeCloseTo(-low, 9);
  });

  it("is not empty where all pairs agree, and as wide as Wilson's of none in n", () => {
    expect(tango(0, 0, 20).high).toBeCloseTo(wilson(0, 20).high, 9);
    expect(tango(0, 0, 20).low).toBeCloseTo(-wilson(0, 20).high, 9);
  });

  it("stays within −1 and 1, also where one wins every pair, and knows nothing without pairs", () => {
    const { low, high } = tango(0, 12, 12);
    expect(low).toBeGreaterThan(0.4);
    expect(high).toBeCloseTo(1, 9);
    expect(tango(0, 0, 0)).toEqual({ low: -1, high: 1 });
  });
});

it("pairs of successes are counted by who solved them; the difference is second minus first", () => {
  const first = [true, true, false, false, false];
  const second = [true, false, true, true, false];
  expect(pairedShares(first, second)).toMatchObject({
    n: 5,
    both: 1,
    first: 1,
    second: 2,
    neither: 1,
    difference: 0.2,
    p: 1,
  });
});

describe("the paired bootstrap", () => {
  function intervalOf(first: readonly number[], second: readonly number[]) {
    const { difference, low, high } = pairedMeans(first, second, 1);
    if (low === null || high === null) throw new Error("no interval");
    return { difference, low, high };
  }

  it("has the ends of the distribution over all resamples", () => {
    const first = [0, 0.1, 0.2, 0.5, 0.9, 0.3];
    const second = [0.4, 0.15, 0.9, 0.4, 1, 0.9];
    const all = exactMeans(second.map((value, i) => value - (first[i] as number)));
    const { difference, low, high } = intervalOf(first, second);
    expect(difference).toBeCloseTo(0.2916667, 6);
    // Shares of the exact distribution below the ends; 9,999 draws know 2.5 % to within 0.16 % (standard deviation).
    const below = (value: number) => all.filter((one) => one < value).length / all.length;
    expect(below(low)).toBeGreaterThan(0.015);
    expect(below(low)).toBeLessThan(0.035);
    expect(below(high)).toBeGreaterThan(0.965);
    expect(below(high)).toBeLessThan(0.985);
  });

  it("agrees with SciPy's on 60 pairs", () => {
    const first = FIRST.map((value) => value / 1000);
    const second = SECOND.map((value) => value / 1000);
    const { difference, low, high } = intervalOf(first, second);
    expect(difference).toBeCloseTo(0.0788, 10);
    // scipy.stats.bootstrap(method="percentile", n_resamples=99999) of SciPy 1.17.1: 0.01593 and 0.14065. The ends of 9,999
    // resamples are known to about 0.001 (standard deviation, by the density of the mean there).
    expect(Math.abs(low - 0.01593)).toBeLessThan(0.005);
    expect(Math.abs(high - 0.14065)).toBeLessThan(0.005);
  });

  it("draws the same for the same seed, and keeps pairs together", () => {
    const first = Array.from({ length: 40 }, (_, i) => i);
    const second = first.map((value) => value + 1);
    expect(pairedMeans(first, second, 7)).toMatchObject({ n: 40, difference: 1 });
    const others = first.map((value, i) => value + (i % 7));
    expect(pairedMeans(first, others, 7)).toEqual(pairedMeans(first, others, 7));
    expect(pairedMeans(first, others, 7)).not.toEqual(pairedMeans(first, others, 8));
  });

  it("has no ends where every pair differs by as much, as one pair alone does", () => {
    const none = { low: null, high: null };
    expect(pairedMeans([0.5, 0, 1], [0.5, 0, 1], 1)).toEqual({ n: 3, difference: 0, ...none });
    // 0.7 to 1 is more than 0 to 0.3, by rounding.
    expect(pairedMeans([0, 0.7], [0.3, 1], 1)).toMatchObject(none);
    expect(pairedMeans([0.25], [0.75], 1)).toEqual({ n: 1, difference: 0.5, ...none });
    expect(pairedMeans([], [], 1)).toEqual({ n: 0, difference: 0, ...none });
  });
});
