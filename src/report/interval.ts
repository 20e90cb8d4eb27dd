/** The confidence interval of a share of successes. */

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
  if (n === 0) return { low: 0, high: 1 };
  const share = successes / n;
  const centre = share + (Z * Z) / (2 * n);
  const reach = Z * Math.sqrt((share * (1 - share)) / n + (Z * Z) / (4 * n * n));
  const scale = 1 + (Z * Z) / n;
  return { low: Math.max(0, (centre - reach) / scale), high: Math.min(1, (centre + reach) / scale) };
}
