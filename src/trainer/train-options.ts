/** What a training is asked for, and a run whose model and task a program has opened. */
import "./options.js";
import {
  type Config,
  type LibraryOption,
  libraryOptions,
  type OptionName,
  type OptionOf,
  type ProgramOption,
  programOptions,
} from "../core/config/config.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { TrainEvents } from "./events.js";
import type { Given } from "./given.js";
import type { GivenReward } from "./rewards.js";

/** The options of a training: those of `hone train`. */
export const trainOptions = programOptions("train");

/** With defaults filled in. */
export type TrainConfig = Config<OptionOf<"train">>;

export type TrainRunOptions = Given<ProgramOption<"train">>;

/** @param group rollouts of one scenario, without those that ended by no fault of the model; at least two */
export type RewardFunction = (group: readonly Trajectory[], step: number) => GivenReward | Promise<GivenReward>;

export interface RunEvents extends TrainEvents {
  /** Aborted to stop: finished steps are kept, and the same call goes on after them. */
  readonly signal?: AbortSignal;
}

export interface TrainRunChoice extends RunEvents {
  /** Trains in place of the reward that the options name. The run is then this program's: `yarn train` cannot go on with it. */
  readonly reward?: RewardFunction;
  /** Groups whose rewards by `reward` lie nearer together teach nothing. Default 0; 0.05 suits a judge's scores. */
  readonly spreadFloor?: number;
}

export const EVENTS = {
  signal: true,
  log: true,
  onStart: true,
  onPhase: true,
  onRollout: true,
  onRewarded: true,
  onProgress: true,
  onStep: true,
  onValidation: true,
} satisfies Record<keyof RunEvents, true>;

/** Of the model's options those that are the learner's and the run's as well. */
const SHARED = ["home", "python", "torchIndex"] as const satisfies readonly LibraryOption<"model">[];

/** Options of a training that `openTask` has in its own way. */
const OF_TASK = [
  "model",
  "task",
  "set",
  "db",
  "scenarios",
  "map",
  "testShare",
  "seed",
  "mcp",
  "mcpAllow",
  "mcpDeny",
] as const satisfies readonly OptionName[];

type Elsewhere = Exclude<LibraryOption<"model">, (typeof SHARED)[number]> | (typeof OF_TASK)[number];

/** Options of a run: those of `hone train` that are not the model's or the task's. */
export type RunOption = Exclude<ProgramOption<"train">, Elsewhere>;

const isElsewhere = (name: OptionName) =>
  (OF_TASK as readonly string[]).includes(name) ||
  ((libraryOptions("model") as readonly string[]).includes(name) && !(SHARED as readonly string[]).includes(name));

export const runOptions = trainOptions.filter((name) => !isElsewhere(name)) as readonly RunOption[];

/** `reward` is one of hone's by its name, or a function as in {@link TrainRunChoice}. */
export type RunOptions = Omit<Given<RunOption>, "reward"> &
  Omit<TrainRunChoice, "reward"> & { readonly reward?: Given<"reward">["reward"] | RewardFunction };
