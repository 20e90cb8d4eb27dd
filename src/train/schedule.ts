/** The learning rate of each step. */

export interface Schedule {
  /** After the warm-up. */
  readonly learningRate: number;
  /** Of the last step; in between the rate falls linearly. */
  readonly finalLearningRate: number;
  /** Steps over which it rises linearly. */
  readonly warmup: number;
}

/** The rate of step `step` (from 1) of `steps`. */
export function rateOfStep({ learningRate, finalLearningRate, warmup }: Schedule, step: number, steps: number): number {
  const done = steps <= 1 ? 0 : (step - 1) / (steps - 1);
  const rate = learningRate + (finalLearningRate - learningRate) * Math.min(1, done);
  return rate * Math.min(1, step / (warmup + 1));
}
