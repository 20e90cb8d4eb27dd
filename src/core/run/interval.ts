/** Confidence intervals of a share of successes. The page in web/ uses them too. */

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/** Two-sided 95 % quantile of the normal distribution. */
const Z = 1.959963984540054;

/**
 * The 95 % score interval of a proportion (Wilson 1927). Unlike the textbook's normal interval it stays within [0, 1]
 * and keeps its level for few trials and for shares near 0 and 1. Without trials it is [0, 1].
 */
export function wilson(successes: number, n: number): Interval {
  return n === 0 ? { low: 0, high: 1 } : ofShare(successes / n, n);
}

/** @param n trials; a fraction where they count less than their number */
function ofShare(share: number, n: number): Interval {
  const centre = share + (Z * Z) / (2 * n);
  const reach = Z * Math.sqrt((share * (1 - share)) / n + (Z * Z) / (4 * n * n));
  const scale = 1 + (Z * Z) / n;
  // Of no successes, or of nothing else, rounding would leave a bound beside 0 or 1.
  const low = share === 0 ? 0 : Math.max(0, (centre - reach) / scale);
  return { low, high: share === 1 ? 1 : Math.min(1, (centre + reach) / scale) };
}

/** The rollouts of one question: what one of them does says something about the others. */
export interface Cluster {
  readonly n: number;
  readonly successes: number;
}

/**
 * The 95 % interval of the share of successes over all questions of which these are a sample. For one rollout a question it is
 * Wilson's. Otherwise Wilson's with an effective number of trials: n / d, where the design effect d is the variance of the share
 * between clusters, n^-2 k/(k - 1) Σ (successes_i - share n_i)², over that of independent trials, share (1 - share) / n (Rao &
 * Scott 1992, Biometrics 48:577-585, section 2), not below 1; times (z/t)² with Student's t for k - 1 degrees of freedom, since k
 * clusters estimate the variance (Korn & Graubard 1998, Survey Methodology 24:193-201, section 2). Where all rollouts have the
 * same outcome the variance says nothing, and each question counts as one trial. A single question has the interval [0, 1].
 */
export function clustered(clusters: readonly Cluster[]): Interval {
  const played = clusters.filter(({ n }) => n > 0);
  const k = played.length;
  const n = played.reduce((sum, cluster) => sum + cluster.n, 0);
  const successes = played.reduce((sum, cluster) => sum + cluster.successes, 0);
  if (n === k) return wilson(successes, n);
  if (k === 1) return { low: 0, high: 1 };
  const share = successes / n;
  if (successes === 0 || successes === n) return ofShare(share, k);
  const squares = played.reduce((sum, cluster) => sum + (cluster.successes - share * cluster.n) ** 2, 0);
  const variance = ((k / (k - 1)) * squares) / n ** 2;
  const effect = Math.max(1, variance / ((share * (1 - share)) / n));
  return ofShare(share, (n / effect) * (Z / studentT(k - 1)) ** 2);
}

/** The 95 % interval of a mean by Student's t, for values of about the normal distribution; null for fewer than two. */
export function meanInterval(values: readonly number[]): Interval | null {
  const n = values.length;
  if (n < 2) return null;
  const centre = values.reduce((sum, value) => sum + value, 0) / n;
  const variance = values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (n - 1);
  const reach = studentT(n - 1) * Math.sqrt(variance / n);
  return { low: centre - reach, high: centre + reach };
}

/** The cluster of each key, in order of their first occurrence. */
export function clustersOf<T>(items: readonly T[], key: (item: T) => string, solved: (item: T) => boolean): Cluster[] {
  const clusters = new Map<string, { n: number; successes: number }>();
  for (const item of items) {
    const of = clusters.get(key(item)) ?? { n: 0, successes: 0 };
    clusters.set(key(item), { n: of.n + 1, successes: of.successes + (solved(item) ? 1 : 0) });
  }
  return [...clusters.values()];
}

/** P(|t| < √n · tan θ) for n degrees of freedom (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4). */
function within(angle: number, n: number): number {
  const cos = Math.cos(angle);
  const odd = n % 2 === 1;
  let sum = 0;
  let term = odd ? cos : 1;
  for (let power = odd ? 1 : 0; power <= n - 2; power += 2) {
    sum += term;
    term *= (cos * cos * (power + 1)) / (power + 2);
  }
  return odd ? (2 / Math.PI) * (angle + Math.sin(angle) * sum) : Math.sin(angle) * sum;
}

const known = new Map<number, number>();

/** The 97.5 % quantile of Student's t with n degrees of freedom, n a whole number from 1 on. */
export function studentT(n: number): number {
  const found = known.get(n);
  if (found !== undefined) return found;
  let low = 0;
  let high = Math.PI / 2;
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (within(middle, n) < 0.95) low = middle;
    else high = middle;
  }
  const quantile = Math.sqrt(n) * Math.tan(low);
  known.set(n, quantile);
  return quantile;
}
