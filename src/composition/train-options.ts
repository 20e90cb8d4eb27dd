/** What hone's own training loop is asked for. */
import { type ProgramOption, programOptions } from "../config/config.js";
import type { Trajectory } from "../rollout/trajectory.js";
import type { TrainEvents } from "./events.js";
import type { Given } from "./given.js";
import type { GivenReward } from "./rewards.js";

/** The options of a training: those of `hone train`. */
export const trainOptions = programOptions("train");

export type TrainRunOptions = Given<ProgramOption<"train">>;

/** @param group rollouts of one scenario, without those that ended by no fault of the model; at least two */
export type RewardFunction = (group: readonly Trajectory[], step: number) => GivenReward | Promise<GivenReward>;

export interface TrainRunChoice extends TrainEvents {
  /** Trains in place of the reward that the options name. The run is then this program's: `yarn train` cannot go on with it. */
  readonly reward?: RewardFunction;
  /** Groups whose rewards by `reward` lie nearer together teach nothing. Default 0; 0.05 suits a judge's scores. */
  readonly spreadFloor?: number;
  /** Aborted to stop: finished steps are kept, and the same call goes on after them. */
  readonly signal?: AbortSignal;
}
