/** Events of `trainRun`. */
import type { OnProgress } from "../core/learn/types.js";
import type { GroupReward } from "../core/reward/reward.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { MetricsLine, ValidationRow } from "../core/run/records.js";
import type { Phase } from "../core/train/parts.js";
import type { Listener } from "./given.js";

export interface TrainStart {
  /** The run's folder. */
  readonly folder: string;
  /** Steps that are done. */
  readonly step: number;
  /** Steps of the whole run. */
  readonly steps: number;
  /** Whether another reward than the task's own trains. */
  readonly judged: boolean;
}

/**
 * Each is called when it happens, and not waited for. What one throws ends the run; so does what an async one rejects with, at the
 * next phase or step, or when the run is closed; later it is a warning of the process. Finished steps are kept.
 */
export interface TrainEvents extends Listener {
  /** Everything is loaded, and the first rollouts are next. */
  readonly onStart?: (start: TrainStart) => void;
  /** A part of a step begins, with so many rollouts; an update with so many groups. */
  readonly onPhase?: (step: number, phase: Phase, total: number) => void;
  readonly onRollout?: (trajectory: Trajectory) => void;
  /** A group's rewards are known. Those of its rollouts that ended by no fault of the model are left out. */
  readonly onRewarded?: (group: readonly Trajectory[], reward: GroupReward) => void;
  /** How far an update is. */
  readonly onProgress?: OnProgress;
  /** A step is done and kept: its figures. */
  readonly onStep?: (line: MetricsLine) => void;
  readonly onValidation?: (row: ValidationRow) => void;
}
