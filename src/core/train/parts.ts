/** Interfaces of the training loop's parts. src/trainer binds the real ones; tests use others. */
import type { AdvantageOptions } from "../learn/advantages.js";
import type { Progress } from "../learn/protocol.js";
import type { StepMetrics, StepSettings } from "../learn/types.js";
import type { GroupReward, Rewards } from "../reward/reward.js";
import type { RolloutFailure, Trajectory } from "../rollout/trajectory.js";
import type { Adapter, MetricsLine, ProbeReading, ValidationRow } from "../run/records.js";
import type { Run } from "../run/run.js";
import type { Scenario } from "../task/task.js";
import type { CreditedGroup } from "./credit.js";
import type { LastUpdates } from "./earlier.js";
import type { Guard, MismatchSettings } from "./guard.js";
import type { Schedule } from "./schedule.js";

export interface PlayRequest {
  /** Names from which, with the scenario and the index in the group, every seed is derived. */
  readonly seedName: string;
  readonly step: number;
  readonly scenarios: readonly Scenario[];
  /** Rollouts of each scenario. */
  readonly groupSize: number;
  /** Rollouts that were played before: they are part of the result and not played again. */
  readonly have: readonly Trajectory[];
  readonly signal: AbortSignal;
  readonly onTrajectory: (trajectory: Trajectory) => void;
  /** Called with every group as soon as none of its rollouts is left to be played. */
  readonly onGroup?: (group: readonly Trajectory[]) => void;
}

export interface PlayResult {
  /** By scenario, in the order requested; members by index. */
  readonly groups: readonly (readonly Trajectory[])[];
  readonly failures: readonly RolloutFailure[];
  /** The signal was aborted before everything was played. */
  readonly interrupted: boolean;
}

/** The policy that plays: the engine and its workers. */
export interface Policy {
  /** Loads this adapter; null is the base model. It must be awake: what it played before is scored on the adapter's probe. */
  use(adapter: Adapter | null): Promise<void>;
  /**
   * The distance between the engine's log-probabilities and those in the probe of the adapter's checkpoint, which shows
   * whether the adapter is in force; null when it was measured since the adapter was loaded, or there is no probe.
   */
  probe(): Promise<ProbeReading | null>;
  play(request: PlayRequest): Promise<PlayResult>;
  /** Frees memory for the learner; nothing is played until `wake`. */
  sleep(): Promise<void>;
  /**
   * Wakes, where it sleeps, with fewer concurrent rollouts from now on where memory does not suffice for as many as before.
   * @throws EngineOutOfMemory when it does not suffice for one; the policy sleeps as before
   */
  wake(): Promise<void>;
}

/** What changes from update to update, by the names of {@link StepSettings}. */
export interface UpdateRequest
  extends Pick<StepSettings, "batch" | "into" | "learningRate" | "playedBy" | "earlier" | "previous">,
    Required<Pick<StepSettings, "adapter" | "rollouts" | "sampledTokens" | "seed" | "adapterType" | "onProgress">> {
  /** Checkpoint folder in force; undefined while the adapter is new. */
  readonly from: string | undefined;
  readonly signal: AbortSignal;
  /** Called with each request for the learner before it is sent. Rejects where it must not be. */
  readonly onAsk: (asked: StepSettings) => Promise<void>;
}

/** The learner, with the interface that the loop uses; the implementation decides whether it stays alive between updates. */
export interface Updater {
  /**
   * Starts from a checkpoint, or with a new adapter, once: later calls await the first. An update awaits it too.
   * Rejects when the learner refuses.
   */
  prepare(from: string | undefined): Promise<void>;
  update(request: UpdateRequest): Promise<StepMetrics>;
  close(): Promise<void>;
}

export type Phase = "validation" | "rollouts" | "update" | "checkpoint";

/** Receives the events of the loop. */
export interface View {
  phase(step: number, phase: Phase, total: number): void;
  rollout(trajectory: Trajectory): void;
  /** The rewards of a group are known. */
  rewarded(group: readonly Trajectory[], reward: GroupReward): void;
  progress(progress: Progress): void;
  step(line: MetricsLine): void;
  validation(row: ValidationRow): void;
  log(text: string): void;
}

/** Chooses what the steps of a run play. */
export interface StepScenarios {
  /** Scenarios in a step. */
  readonly groupsPerStep: number;
  /**
   * The scenarios a step plays next, given its groups so far: first its own scenarios, then at most `refill` others; none when
   * the step goes on to its update.
   */
  next(step: number, soFar: readonly CreditedGroup[], refill: number): Scenario[];
  /** Scenarios of the train split that sit out at this step (--rest). */
  resting(step: number): number;
  /** The scenarios of every validation: always the same ones, so that results are comparable. */
  ofValidation(count: number): Scenario[];
}

export interface LoopSettings extends MismatchSettings {
  /** The type in which the engine keeps adapters. */
  readonly adapterType: UpdateRequest["adapterType"];
  readonly seed: number;
  readonly steps: number;
  /** Steps that are played ahead of the update (version.ts). */
  readonly staleness: number;
  /** Engine and learner have memory of their own, so that the engine stays awake during updates. */
  readonly apart: boolean;
  /** Rollouts of each scenario. */
  readonly groupSize: number;
  readonly temperature: number;
  readonly schedule: Schedule;
  readonly advantages: AdvantageOptions;
  /** Weight of the KL divergence to the base model in the loss. */
  readonly kl: number;
  /** Groups that a step may play in place of those with advantages of 0. */
  readonly refill: number;
  /** Do not train on rollouts that a limit ended. */
  readonly maskTruncated: boolean;
  /** Steps between two validations; 0 validates only at the start and the end. */
  readonly validateEvery: number;
  /** Scenarios in a validation. */
  readonly validateN: number;
  /** Newest checkpoints to keep, besides the best. */
  readonly keep: number;
}

export interface LoopParts extends Omit<Rewards, "spreadFloor" | "judgeBeside" | "close"> {
  readonly run: Run;
  readonly settings: LoopSettings;
  readonly scenarios: StepScenarios;
  readonly policy: Policy;
  readonly updater: Updater;
  /** In the order in which they look. */
  readonly guards: readonly Guard[];
  /** What the steps of this process said of their last updates. */
  readonly lastUpdates: LastUpdates;
  readonly view: View;
  readonly signal: AbortSignal;
}
