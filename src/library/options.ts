/** Options of the library: those of the command line, by the names of docs/options.md in camelCase, checked as there. */
import { type Config, type OptionName, objectiveOptionNames } from "../config/index.js";
import { playerOptions } from "../play/index.js";

/** Any of the options `K`; undefined takes the default. */
export type Given<K extends OptionName> = { readonly [N in K]?: Config[N] | undefined };

type Playing = Exclude<
  (typeof playerOptions)[number],
  "model" | "agentUrl" | "agentModel" | "agentKey" | "expert" | "mistakes"
>;

const notOfModels: readonly string[] = ["model", "agentUrl", "agentModel", "agentKey", "expert", "mistakes"];

/** What can be said of a model that plays, and of every rollout it plays. */
export const modelOptionNames = [
  ...(playerOptions.filter((name) => !notOfModels.includes(name)) as Playing[]),
  "maxTurns",
  "onToolError",
  "turnTimeout",
  "toolTimeout",
  "rolloutTimeout",
  "maxExceptions",
  "workers",
  "home",
] as const satisfies readonly OptionName[];

/** Those of a run that a program steps through. What is played, and how it is rewarded, is the program's own affair. */
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

/** Who hears what is worth telling; nobody by default. */
export interface Listener {
  readonly log?: (line: string) => void;
}
