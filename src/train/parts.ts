/** What the training loop works with, as it sees it. The real ones are bound in training.ts; tests play with others. */
import type { AdvantageOptions, Progress, StepMetrics } from "../learn/index.js";
import type { GroupReward, Rewards } from "../reward/index.js";
import type { RolloutFailure, Trajectory } from "../rollout/index.js";
import type { Adapter, MetricsLine, ProbeReading, Run, ValidationRow } from "../run/index.js";
import type { Scenario } from "../tasks/index.js";
import type { GapSettings } from "./gap.js";
import type { ScenarioCursor } from "./sampler.js";
import type { Schedule } from "./schedule.js";

export interface PlayRequest {
  /** Names of this gathering: every seed derives from them, the scenario and the place in its group. */
  readonly run: string;
  readonly step: number;
  readonly scenarios: readonly Scenario[];
  /** Rollouts of each scenario. */
  readonly group: number;
  /** Rollouts that were played before: they are part of the result and not played again. */
  readonly have: readonly Trajectory[];
  readonly signal: AbortSignal;
  readonly onTrajectory: (trajectory: Trajectory) => void;
  /** Told of every group as soon as none of its rollouts is left to be played. */
  readonly onGroup?: (group: readonly Trajectory[]) => void;
}

export interface Played {
  /** By scenario, in the order asked for; members by index. */
  readonly groups: readonly (readonly Trajectory[])[];
  readonly failures: readonly RolloutFailure[];
  /** The signal was aborted before everything was played. */
  readonly interrupted: boolean;
}

/** The model as it plays: the engine and the workers around it. */
export interface Policy {
  /** Plays with this adapter from now on, or from its next `wake` where it rests; null is the base model. */
  use(adapter: Adapter | null): Promise<void>;
  /**
   * The distance between the engine's log-probabilities and those in the probe of the adapter's checkpoint, which shows
   * whether the adapter is in force; null when that has been asked since it was put on, or there is no probe.
   */
  probe(): Promise<ProbeReading | null>;
  play(request: PlayRequest): Promise<Played>;
  /** Gives memory back for the learner's turn; nothing is played until `wake`. */
  rest(): Promise<void>;
  /**
   * With fewer rollouts at once from now on where memory does not suffice for as many as before.
   * @throws EngineOutOfMemory when it does not suffice for one; the policy rests as before
   */
  wake(): Promise<void>;
}

export interface UpdateRequest {
  /** Batch file. */
  readonly batch: string;
  /** Empty folder for the new checkpoint's files. */
  readonly into: string;
  /** Checkpoint folder that is in force; undefined while the adapter is new. */
  readonly from: string | undefined;
  readonly learningRate: number;
  /** Rollouts that the batch stands for; see StepSettings. */
  readonly rollouts: number;
  /** Deals groups to mini-batches. */
  readonly seed: number;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
}

/** The learner as the loop sees it: whether it stays alive between updates is its own affair. */
export interface Updater {
  /**
   * Starts from a checkpoint, or with a new adapter, once: later calls wait for the first. An update waits for it too.
   * Fails when the learner refuses.
   */
  prepare(from: string | undefined): Promise<void>;
  update(request: UpdateRequest): Promise<StepMetrics>;
  close(): Promise<void>;
}

export type Phase = "validation" | "rollouts" | "update" | "checkpoint";

/** Whoever watches the loop. */
export interface View {
  phase(step: number, phase: Phase, total: number): void;
  rollout(trajectory: Trajectory): void;
  /** A group's rewards have come. */
  rewarded(group: readonly Trajectory[], reward: GroupReward): void;
  progress(progress: Progress): void;
  step(line: MetricsLine): void;
  validation(row: ValidationRow): void;
  say(text: string): void;
}

export interface LoopSettings extends GapSettings {
  readonly seed: number;
  readonly steps: number;
  /** Rollouts of each scenario. */
  readonly group: number;
  readonly temperature: number;
  readonly schedule: Schedule;
  readonly advantages: AdvantageOptions;
  /** Groups that a step may play in the place of those that teach nothing. */
  readonly refill: number;
  /** Do not learn from rollouts that a limit ended. */
  readonly maskTruncated: boolean;
  /** Steps between two validations; 0 validates at the start and the end alone. */
  readonly validateEvery: number;
  /** Scenarios in a validation. */
  readonly validateN: number;
  /** Newest checkpoints to keep, besides the best. */
  readonly keep: number;
}

export interface LoopParts extends Omit<Rewards, "spreadFloor" | "close"> {
  readonly run: Run;
  readonly settings: LoopSettings;
  readonly scenarios: Pick<ScenarioCursor, "groups" | "next" | "ofValidation">;
  readonly policy: Policy;
  readonly updater: Updater;
  readonly view: View;
  readonly signal: AbortSignal;
}
