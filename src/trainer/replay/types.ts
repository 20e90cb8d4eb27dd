/** A step of a run that is recomputed, and what came of it. */
import type { GivenOptions } from "../../core/config/config.js";
import type { StepRow } from "../../core/run/records.js";
import type { CreditedGroup } from "../../core/train/credit.js";
import type { RewardKind } from "../../judge/reward/registry.js";
import type { RunReader, SeenRollout } from "../../machine/runs/reader.js";
import type { RunPlan } from "../plan-run.js";

/** One part of the step. */
export interface ReplayCheck {
  readonly part: "learning rate" | "task rewards" | "training rewards" | "advantages" | "batch" | "update";
  /** same: every bit. close: to rounding. skipped: it cannot be recomputed. */
  readonly result: "same" | "close" | "differs" | "skipped";
  /** What was compared, or why it was not. */
  readonly text: string;
}

export interface ReplayedStep {
  readonly step: number;
  readonly checks: readonly ReplayCheck[];
}

export interface Replayed {
  readonly run: string;
  readonly steps: readonly ReplayedStep[];
  /** What was taken as it is stored, so that a fault in it shows in no check. */
  readonly notRebuilt: readonly string[];
  /** Whether no part of a step differs. */
  readonly agrees: boolean;
}

export interface ReplayIo {
  readonly log: (line: string) => void;
  /** Called after each step. */
  readonly onStep?: (run: string, done: ReplayedStep) => void;
  readonly signal: AbortSignal;
}

/** Plans the run as a training that goes on with it would. @param reward in place of a program's function */
export type PlanReplay = (given: GivenOptions, reward: RewardKind | undefined, io: ReplayIo) => Promise<RunPlan>;

/** A step as its run keeps it. */
export interface KeptStep {
  /** The run's folder. */
  readonly folder: string;
  readonly at: StepRow;
  /** The state that the step began with. */
  readonly before: StepRow;
  readonly rollouts: readonly SeenRollout[];
  /** Groups of all committed steps. */
  readonly played: ReturnType<RunReader["groupOutcomes"]>;
  /** How often the start's model solved each scenario, with --difficulty. */
  readonly difficulty: ReturnType<RunReader["difficulty"]>;
  /** Whether no later step has updated the policy. */
  readonly isLastUpdate: boolean;
}

/** The step's groups as they were trained. */
export interface ReplayedGroups {
  readonly groups: readonly CreditedGroup[];
  /** Groups beyond the step's own, played in place of some with advantages of 0. */
  readonly further: number;
  /** Whether their order is that of the update: a program chooses its own. */
  readonly inOrder: boolean;
}
