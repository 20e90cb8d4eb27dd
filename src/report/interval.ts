/** How sure a share of successes is. */

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/** Two-sided 95 % of the normal distribution. */
const Z = 1.959963984540054;

/**
 * The 95 % score interval of a proportion (Wilson 1927). Unlike the textbook's normal interval it stays within [0, 1]
 * and holds its level for few trials and for shares near 0 and 1. Without trials nothing is known: [0, 1].
 */
export function wilson(successes: number, n: number): Interval {
  if (n === 0) return { low: 0, high: 1 };
  const share = successes / n;
  const centre = share + (Z * Z) / (2 * n);
  const reach = Z * Math.sqrt((share * (1 - share)) / n + (Z * Z) / (4 * n * n));
  const scale = 1 + (Z * Z) / n;
  return { low: Math.max(0, (centre - reach) / scale), high: Math.min(1, (centre + reach) / scale) };
}
