/**
 * Advantages of a group: how much better each rollout did than its siblings. Pure.
 *
 * Group baseline: GRPO (Shao et al. 2024, arXiv 2402.03300, eq. 1). Leaving out the division by the standard deviation:
 * Dr. GRPO (Liu et al. 2025, arXiv 2503.20783). The mean of the others as baseline: RLOO (Ahmadian et al. 2024, arXiv
 * 2402.14740); r − mean of the n − 1 others is n / (n − 1) times r − mean of all. Leaving out groups without spread: DAPO's
 * dynamic sampling (Yu et al. 2025, arXiv 2503.14476).
 */

import { HoneError } from "../util/errors.js";
import type { AdvantageEstimator } from "./objectives.js";

export interface AdvantageOptions {
  /**
   * "grpo": reward minus the group's mean, divided by the group's standard deviation, so that easy and hard scenarios have
   * equal weight. "dr-grpo": not divided. "rloo": reward minus the mean of the others.
   */
  readonly estimator: AdvantageEstimator;
  /**
   * For "grpo": added to the standard deviation before dividing, so that a small spread does not become advantages of size
   * one: 0.1 for checkable rewards, 0 to divide by the deviation alone.
   */
  readonly stdFloor: number;
  /**
   * A group whose rewards differ by less than this teaches nothing, since smaller differences of a judge's scores are noise.
   * 0.05 for judged rewards, 0 for checkable ones (only equal rewards are left out).
   */
  readonly spreadFloor: number;
}

export interface GroupAdvantages {
  /** One for each reward, in order; their mean is 0. All 0 without a spread. */
  readonly advantages: number[];
  /** False when the group teaches nothing: fewer than two rollouts, or no spread. */
  readonly hasSpread: boolean;
}

/** Differences below this are rounding. */
const TINY = 1e-6;

/** Sample standard deviation (n − 1); 0 for fewer than two values. */
export function deviation(values: readonly number[]): number {
  const n = values.length;
  if (n < 2) return 0;
  const mean = values.reduce((sum, value) => sum + value, 0) / n;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (n - 1));
}

/** @throws HoneError when a reward is not a finite number: its source should have refused it */
export function groupAdvantages(rewards: readonly number[], options: AdvantageOptions): GroupAdvantages {
  const wrong = rewards.find((reward) => !Number.isFinite(reward));
  if (wrong !== undefined) throw new HoneError(`a reward is ${wrong}, not a finite number; the step was not taken`);
  const n = rewards.length;
  const mean = n === 0 ? 0 : rewards.reduce((sum, reward) => sum + reward, 0) / n;
  const std = deviation(rewards);
  const spread = n === 0 ? 0 : Math.max(...rewards) - Math.min(...rewards);
  // The difference of scores such as 0.85 and 0.8 is 0.05, whatever their binary fractions give.
  const hasSpread = spread > TINY && spread >= options.spreadFloor - TINY;
  const scale = { grpo: std + options.stdFloor, "dr-grpo": 1, rloo: (n - 1) / n }[options.estimator];
  const advantages = rewards.map((reward) => (hasSpread ? (reward - mean) / scale : 0));
  return { advantages, hasSpread };
}
