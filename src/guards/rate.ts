/** The learning rate of a step, computed again from the steps that the run has. */
import type { Schedule } from "../core/train/schedule.js";
import { HoneError } from "../core/util/errors.js";

/** Largest relative difference that is rounding. */
const ROUNDING = 1e-9;

const shown = (value: number) => String(Number(value.toPrecision(6)));

/**
 * @param done steps that are committed
 * @throws HoneError where the rate is another step's, or no step's
 */
export function checkRate(
  rate: number,
  done: number,
  { learningRate, finalLearningRate, warmup, steps }: Schedule & { readonly steps: number },
): void {
  const step = done + 1;
  // As the mean of both ends, weighted by the steps that lie before and behind.
  const behind = Math.max(0, steps - step);
  const before = Math.min(done, Math.max(0, steps - 1));
  const between =
    before + behind === 0 ? learningRate : (behind * learningRate + before * finalLearningRate) / (before + behind);
  const expected = step <= warmup ? (between * step) / (warmup + 1) : between;
  if (Math.abs(rate - expected) <= ROUNDING * Math.abs(expected)) return;
  throw new HoneError(
    `the learning rate of step ${step} is ${shown(rate)}, and by the schedule of ${steps} steps it is ${shown(expected)}; the step was not taken`,
  );
}
