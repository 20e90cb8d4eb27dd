/** The part of `replay` that needs nothing but the step's number: its learning rate. */
import type { StepRow } from "../../core/run/records.js";
import { rateOfStep, type Schedule } from "../../core/train/schedule.js";
import type { ReplayCheck } from "./types.js";

const ROUNDING = 1e-9;

/** @param schedule of the run, over so many steps as it has now: more may have been given to it since */
export function replayRate(
  { step, metrics }: Pick<StepRow, "step" | "metrics">,
  schedule: Schedule & { readonly steps: number },
): ReplayCheck {
  const part = "learning rate";
  const was = metrics?.learning_rate ?? 0;
  const isOf = (steps: number) => Math.abs(rateOfStep(schedule, step, steps) - was) <= ROUNDING * was;
  if (isOf(schedule.steps)) return { part, result: "same", text: `${was}` };
  const { learningRate, finalLearningRate, warmup } = schedule;
  // Of a rate that falls over all steps, the number of steps from which it follows.
  const share = (learningRate - was / Math.min(1, step / (warmup + 1))) / (learningRate - finalLearningRate);
  const then = Math.round((step - 1) / share) + 1;
  if (then >= step && isOf(then)) {
    const text = `${was} is that of a run of ${then} steps, and this one has ${schedule.steps} now`;
    return { part, result: "skipped", text };
  }
  return { part, result: "differs", text: `it is ${rateOfStep(schedule, step, schedule.steps)} now and was ${was}` };
}
