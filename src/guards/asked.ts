/** What the learner is asked for: the learning rate of a step, computed again from the steps that the run has, and the options. */

import { LINEAR_LAYERS, type StepSettings } from "../core/learn/types.js";
import type { RunSettings } from "../core/run/settings.js";
import { demanding, type Guard, type Wrong } from "../core/train/guard.js";
import type { Schedule } from "../core/train/schedule.js";

/** Largest relative difference that is rounding. */
const ROUNDING = 1e-9;

const shown = (value: number) => String(Number(value.toPrecision(6)));

/**
 * @param done steps that are committed
 * @returns what is wrong, where the rate is another step's, or no step's
 */
export function checkRate(
  rate: number,
  done: number,
  { learningRate, finalLearningRate, warmup, steps }: Schedule & { readonly steps: number },
): Wrong {
  const step = done + 1;
  // As the mean of both ends, weighted by the steps that lie before and behind.
  const behind = Math.max(0, steps - step);
  const before = Math.min(done, Math.max(0, steps - 1));
  const between =
    before + behind === 0 ? learningRate : (behind * learningRate + before * finalLearningRate) / (before + behind);
  const expected = step <= warmup ? (between * step) / (warmup + 1) : between;
  if (Math.abs(rate - expected) <= ROUNDING * Math.abs(expected)) return undefined;
  return `the learning rate of step ${step} is ${shown(rate)}, and by the schedule of ${steps} steps it is ${shown(expected)}; the step was not taken`;
}

// What it is to do with a step's batch, beside the options of the run, one by one: apart from updater.ts, which asks.

/** @returns what is wrong, where it is asked for something else than the run has */
export function checkAsked(asked: StepSettings, run: RunSettings): Wrong {
  const { objective, importance } = asked;
  const pairs: readonly (readonly [option: string, found: unknown, wanted: unknown])[] = [
    ["--loss", objective.name, run.loss],
    ["--clip-low", objective.clipLow ?? undefined, run.clipLow ?? undefined],
    ["--clip-high", objective.clipHigh, run.clipHigh],
    ["--importance-sampling", importance.mode, run.importanceSampling],
    ["--importance-min", importance.low, run.importanceMin],
    ["--importance-max", importance.high, run.importanceMax],
    ["--temperature", asked.temperature, run.temperature],
    ["--kl", asked.klCoefficient, run.kl],
    ["--iterations", asked.epochs, run.iterations],
    ["--minibatches", asked.minibatches, run.minibatches],
    ["--max-grad-norm", asked.maxGradNorm, run.maxGradNorm],
    ["--max-tokens times --max-turns", asked.maxCompletionTokens, run.maxTokens * run.maxTurns],
  ];
  const other = pairs.find(([, found, wanted]) => found !== wanted);
  if (other === undefined) return undefined;
  const [option, found, wanted] = other;
  return `the learner would be asked for ${option} ${found ?? "unset"}, and the run has ${wanted ?? "unset"}; the step was not taken. The same command tries again`;
}

export const askedGuard = (run: RunSettings): Guard => ({
  name: "what is asked, by the run's options",
  sees: "an update by another objective, weight of KL, temperature, clipping or number of updates than the run's options give",
  beforeAsking: ({ asked }) => demanding("refuse", () => checkAsked(asked, run)),
});

// The form of a checkpoint's adapter, as its own file says it.

/** Of PEFT's adapter_config.json. */
export interface AdapterConfig {
  readonly r: number;
  readonly lora_alpha: number;
  readonly target_modules: readonly string[] | string;
}

export interface AdapterReader {
  /** Of the step's own checkpoint. */
  adapterConfig(step: number): AdapterConfig;
}

/** @returns what is wrong, where the adapter has another form than the run */
export function checkAdapterConfig(
  step: number,
  { r, lora_alpha: alpha, target_modules: modules }: AdapterConfig,
  { loraRank, loraAlpha, loraTargets }: RunSettings,
): Wrong {
  const wanted = [...loraTargets].sort().join();
  // Some models have several of those layers in one, under another name.
  const named = Array.isArray(modules) && modules.every((name) => LINEAR_LAYERS.includes(name));
  const pairs: readonly (readonly [option: string, found: unknown, wanted: unknown])[] = [
    ["--lora-rank", r, loraRank],
    ["--lora-alpha", alpha, loraAlpha],
    ["--lora-targets", named ? [...modules].sort().join() : wanted, wanted],
  ];
  const other = pairs.find(([, found, run]) => found !== run);
  if (other === undefined) return undefined;
  const [option, found, run] = other;
  return `the adapter of step ${step} has ${option} ${found}, and the run ${run}; the step was taken back`;
}

export const adapterGuard = (reader: AdapterReader, run: RunSettings): Guard => ({
  name: "the adapter's form, by the run's options",
  sees: "an adapter of another rank, scale or on other layers than the run's options say",
  afterCommit: ({ step, learnt }) =>
    learnt?.applied
      ? demanding("take the commit back", () => checkAdapterConfig(step, reader.adapterConfig(step), run))
      : undefined,
});
