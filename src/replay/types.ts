/** A step of a run that is recomputed, and what came of it. */
import type { RunReader, SeenRollout } from "../run/reader.js";
import type { StepRow } from "../run/records.js";
import type { CreditedGroup } from "../train/credit.js";

/** One part of the step. */
export interface ReplayCheck {
  readonly part: "task rewards" | "training rewards" | "advantages" | "batch" | "update";
  /** same: every bit. close: to rounding. skipped: it cannot be recomputed. */
  readonly result: "same" | "close" | "differs" | "skipped";
  /** What was compared, or why it was not. */
  readonly text: string;
}

export interface Replayed {
  readonly run: string;
  readonly step: number;
  readonly checks: readonly ReplayCheck[];
  /** Whether no part differs. */
  readonly agrees: boolean;
}

export interface ReplayIo {
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

/** A step as its run keeps it. */
export interface KeptStep {
  /** The run's folder. */
  readonly folder: string;
  readonly at: StepRow;
  /** The state that the step began with. */
  readonly before: StepRow;
  readonly rollouts: readonly SeenRollout[];
  /** Groups of all committed steps. */
  readonly played: ReturnType<RunReader["playedGroups"]>;
  /** How often the start's model solved each scenario, with --difficulty. */
  readonly difficulty: ReturnType<RunReader["difficulty"]>;
  /** Whether no later step has updated the policy. */
  readonly isLastUpdate: boolean;
}

/** The step's groups as they were trained. */
export interface ReplayedGroups {
  readonly groups: readonly CreditedGroup[];
  /** Groups beyond the step's own, played in place of idle ones. */
  readonly further: number;
  /** Whether their order is that of the update: a program chooses its own. */
  readonly inOrder: boolean;
}
