/** The learning rate of each step. */
import { hone } from "../util/program.js";
import { shellWord } from "../util/text.js";

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

/** A run as it stands. */
export interface Standing {
  readonly name: string;
  /** The last step, and the rate that it had. */
  readonly step: number;
  readonly rate: number;
  /** Folder of the checkpoint in force; undefined where there is none yet. */
  readonly checkpoint: string | undefined;
}

/**
 * What is said when a run goes on with more steps: its rate falls over all of them, so the next step's is higher than the last
 * one's. undefined where it is not, or still rises in the warm-up.
 */
export function risingRateText(schedule: Schedule, steps: number, run: Standing): string | undefined {
  const { name, step, rate, checkpoint } = run;
  if (schedule.finalLearningRate >= schedule.learningRate) return undefined;
  if (step >= steps || step <= schedule.warmup) return undefined;
  const next = rateOfStep(schedule, step + 1, steps);
  // Not by rounding.
  if (next <= rate * (1 + 1e-9)) return undefined;
  const shown = (value: number) => String(Number(value.toPrecision(3)));
  const from = checkpoint === undefined ? "" : ` --fork ${shellWord(checkpoint)}`;
  const keep = `${hone("train")} --run ${name}-on${from} --steps ${steps - step} --learning-rate ${shown(rate)} --final-learning-rate ${shown(rate)} --warmup 0`;
  return [
    `warning: the learning rate falls over all ${steps} steps, so it rises again: from ${shown(rate)} in step ${step} to ${shown(next)} in step ${step + 1}, and down to ${shown(schedule.finalLearningRate)} in step ${steps}.`,
    `To keep ${shown(rate)}, go on in a run of its own, with this one's other options: ${keep}`,
  ].join("\n");
}
