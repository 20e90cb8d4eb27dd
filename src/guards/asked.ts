/** What the learner is asked to do with a step's batch, beside the options of the run, option by option: apart from updater.ts, which asks. */
import type { StepSettings } from "../core/learn/types.js";
import type { RunSettings } from "../core/run/settings.js";
import { HoneError } from "../core/util/errors.js";

type Asked = Pick<
  StepSettings,
  | "objective"
  | "importance"
  | "temperature"
  | "klCoefficient"
  | "epochs"
  | "minibatches"
  | "maxGradNorm"
  | "maxCompletionTokens"
>;

export type AskedOptions = Pick<
  RunSettings,
  | "loss"
  | "clipLow"
  | "clipHigh"
  | "importanceSampling"
  | "importanceMin"
  | "importanceMax"
  | "temperature"
  | "kl"
  | "iterations"
  | "minibatches"
  | "maxGradNorm"
  | "maxTokens"
  | "maxTurns"
>;

/** @throws HoneError where it is asked for something else than the run has */
export function checkAsked(asked: Asked, run: AskedOptions): void {
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
  if (other === undefined) return;
  const [option, found, wanted] = other;
  throw new HoneError(
    `the learner would be asked for ${option} ${found ?? "unset"}, and the run has ${wanted ?? "unset"}; the step was not taken. The same command tries again`,
  );
}
