/**
 * Options of the library: those of the command line, named as in docs/options.md but in camelCase, with the same
 * checks.
 */
import { type Config, type OptionName, objectiveOptionNames } from "../config/index.js";
import { playerOptions } from "../play/index.js";

/** Any of the options `K`; undefined means the default. */
export type Given<K extends OptionName> = { readonly [N in K]?: Config[N] | undefined };

type Playing = Exclude<
  (typeof playerOptions)[number],
  "model" | "agentUrl" | "agentModel" | "agentKey" | "expert" | "mistakes"
>;

const notOfModels: readonly string[] = ["model", "agentUrl", "agentModel", "agentKey", "expert", "mistakes"];

/** Options of a model and of the rollouts that it plays. */
export const modelOptionNames = [
  ...(playerOptions.filter((name) => !notOfModels.includes(name)) as Playing[]),
  "maxTurns",
  "onToolError",
  "turnTimeout",
  "toolTimeout",
  "rolloutTimeout",
  "taskTimeout",
  "maxExceptions",
  "workers",
  "home",
] as const satisfies readonly OptionName[];

/** Options of a run that a program steps through. Scenarios and rewards are chosen by the program. */
export const runOptionNames = [
  "home",
  "project",
  "run",
  "fork",
  "steps",
  "learningRate",
  "finalLearningRate",
  "warmup",
  "maxGradNorm",
  "loraRank",
  "loraAlpha",
  "loraTargets",
  ...(objectiveOptionNames.filter((name) => name !== "refill") as Exclude<
    (typeof objectiveOptionNames)[number],
    "refill"
  >[]),
  "keep",
  "learner",
  "learnerLifetime",
  "hfWeights",
  "precision",
  "adamBits",
  "microBatchTokens",
  "gradientCheckpointing",
  "releaseWeights",
  "maxMismatch",
  "python",
  "torchIndex",
] as const satisfies readonly OptionName[];

/** Receives log lines; silent by default. */
export interface Listener {
  readonly log?: (line: string) => void;
}
