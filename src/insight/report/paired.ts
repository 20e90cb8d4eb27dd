/** Statistics of the difference between two players on the same scenarios: each scenario is one pair. */

import type { Interval } from "../../core/run/interval.js";
import { Random } from "../../core/util/random.js";

/** Two-sided 95 % quantile of the normal distribution. */
const Z = 1.959963984540054;

/** Resamples of a bootstrap. One less than a round number: (N + 1) times 2.5 % is whole (Davison & Hinkley 1997, 5.3). */
const RESAMPLES = 9999;

/** Pairs of successes, second minus first. */
export interface PairedShares extends Interval {
  /** Number of pairs: scenarios for which both have a result. */
  readonly n: number;
  readonly both: number;
  /** Solved by the first alone, and by the second alone. */
  readonly first: number;
  readonly second: number;
  readonly neither: number;
  /** Difference of the shares, from -1 to 1; `low` to `high` is its 95 % interval. */
  readonly difference: number;
  /** Two-sided p-value: the probability of such a difference or a larger one by chance. */
  readonly p: number;
}

/** Pairs of numbers, second minus first. */
export interface PairedMeans {
  readonly n: number;
  readonly difference: number;
  /** Ends of its 95 % interval; null where every pair differs by as much: the pairs then say nothing of others. */
  readonly low: number | null;
  readonly high: number | null;
}

/**
 * The exact test of McNemar (1947): were first and second equally good, each pair that only one of them solved would be
 * a fair coin. Twice the smaller tail of the binomial distribution, at most 1.
 */
export function mcNemar(first: number, second: number): number {
  const n = first + second;
  let choose = 0;
  let tail = 0;
  for (let k = 0; k <= Math.min(first, second); k++) {
    // In logarithms: 2⁻ⁿ underflows to 0 from about a thousand pairs on.
    if (k > 0) choose += Math.log((n - k + 1) / k);
    tail += Math.exp(choose - n * Math.LN2);
  }
  return Math.min(1, 2 * tail);
}

/**
 * The 95 % score interval of a difference of paired shares (Tango 1998, Statistics in Medicine 17:891-908): all
 * differences that the score test does not reject. Like Wilson's interval it is useful for few pairs, and
 * for pairs that all agree, where the bootstrap gives no interval.
 *
 * @param first pairs that the first alone solved
 * @param second pairs that the second alone solved
 * @param n all pairs
 */
export function tango(first: number, second: number, n: number): Interval {
  if (n === 0) return { low: -1, high: 1 };
  /** Distance between the observed and a true difference, in standard deviations; falls as `delta` rises. */
  const score = (delta: number): number => {
    const a = 2 * n;
    const b = -first - second + (2 * n - second + first) * delta;
    const c = -first * delta * (1 - delta);
    // Maximum-likelihood share of pairs that the first alone solves, given the difference.
    const alone = (Math.sqrt(Math.max(0, b * b - 4 * a * c)) - b) / (2 * a);
    const variance = n * (2 * alone + delta * (1 - delta));
    const excess = second - first - n * delta;
    return variance > 0 ? excess / Math.sqrt(variance) : Math.sign(excess) * Number.POSITIVE_INFINITY;
  };
  const seen = (second - first) / n;
  /** The difference with the score `z`, between the observed one and `edge`. */
  const bound = (edge: -1 | 1, z: number): number => {
    let inside = seen;
    let outside: number = edge;
    for (let i = 0; i < 60; i++) {
      const middle = (inside + outside) / 2;
      if (Math.abs(score(middle)) <= z) inside = middle;
      else outside = middle;
    }
    return (inside + outside) / 2;
  };
  return { low: bound(-1, Z), high: bound(1, Z) };
}

export function pairedShares(first: readonly boolean[], second: readonly boolean[]): PairedShares {
  const n = first.length;
  const count = (a: boolean, b: boolean) => first.filter((one, i) => one === a && second[i] === b).length;
  const alone = { first: count(true, false), second: count(false, true) };
  return {
    n,
    both: count(true, true),
    ...alone,
    neither: count(false, false),
    difference: n === 0 ? 0 : (alone.second - alone.first) / n,
    ...tango(alone.first, alone.second, n),
    p: mcNemar(alone.first, alone.second),
  };
}

/**
 * The mean difference with the 95 % percentile interval of the paired bootstrap (Efron & Tibshirani 1993, chapter 13):
 * pairs are drawn with replacement, which keeps the correlation within a scenario.
 *
 * @param seed names for the random draws: the same names give the same interval
 */
export function pairedMeans(
  first: readonly number[],
  second: readonly number[],
  ...seed: (string | number)[]
): PairedMeans {
  const differences = Float64Array.from(first, (value, i) => (second[i] as number) - value);
  const n = differences.length;
  if (n === 0) return { n, difference: 0, low: null, high: null };
  const difference = differences.reduce((sum, value) => sum + value, 0) / n;
  // Differences of decimals are rounded.
  if (differences.every((value) => Math.abs(value - difference) < 1e-9))
    return { n, difference, low: null, high: null };
  const random = new Random("paired bootstrap", ...seed);
  const means = new Float64Array(RESAMPLES);
  for (let resample = 0; resample < RESAMPLES; resample++) {
    let sum = 0;
    for (let i = 0; i < n; i++) sum += differences[random.integer(0, n - 1)] as number;
    means[resample] = sum / n;
  }
  means.sort();
  const tail = 0.025 * (RESAMPLES + 1);
  return {
    n,
    difference,
    low: means[tail - 1] as number,
    high: means[RESAMPLES - tail] as number,
  };
}
