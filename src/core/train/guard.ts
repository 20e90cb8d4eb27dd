/**
 * What a guard of a training step is. A guard looks at one or several moments of a step and says what it demands; it changes
 * nothing but the memory of guards (`lastUpdates`, which the loop keeps for them). Only the transaction acts on a demand: `heed`, which the stages of a step call at each moment.
 */
import type { AdvantageOptions } from "../learn/advantages.js";
import type { BatchGroup } from "../learn/batch.js";
import type { StepMetrics, StepSettings } from "../learn/types.js";
import type { GroupReward } from "../reward/reward.js";
import type { Trajectory } from "../rollout/trajectory.js";
import type { ProbeReading, StepMetricsRow, StepRow } from "../run/records.js";
import { HoneError } from "../util/errors.js";
import type { CreditedGroup } from "./credit.js";
import type { EarlierPolicy, LastUpdates } from "./earlier.js";
import type { Schedule } from "./schedule.js";

/** The one reward of all rollouts of some steps, and the task as `--task` names it. */
export interface OnlyReward {
  readonly reward: number;
  readonly task: string;
}

export type Demand =
  /** The run stops. Before the commit the next attempt at the step uses what was played; a commit stays. */
  | "refuse"
  /** The run stops before the commit; the step's rollouts are not used again. */
  | "drop these rollouts"
  /** The run stops; a commit that is not settled is undone. */
  | "take the commit back";

export type Finding =
  | { readonly demand: Demand; readonly error: unknown }
  /** Told, and the step goes on. */
  | { readonly demand: "note"; readonly text: string };

/** What the distance between engine and learner is judged by. */
export interface MismatchSettings {
  /** The user's own limit of the mean distance, in nats: it replaces the one of the effective sample size. */
  readonly maxMismatch: number | undefined;
  /** Mean distance, in nats, below which they are taken for one policy where no step of the run says what is usual. */
  readonly expectedMismatch: number;
  /** Mean distance of a run's first step, in nats, up to which clean runs of such weights on such a device were; above it is told. */
  readonly farMismatch: number;
  /** The engine's device and precision, and whether the learner's base weights come from --hf-weights. */
  readonly numerics: { readonly engine: string; readonly hfWeights: boolean };
  /** What brings them closer, for messages. */
  readonly closer: string;
}

/** What there is to see at each moment of a step, in the order of the moments. */
export interface Moments {
  /**
   * A group, as it was played, once all that are played with it are; their rewards may have been asked for by then. A validation's
   * rollouts are each a group.
   */
  readonly afterPlay: {
    readonly group: readonly Trajectory[];
    /** SHA-256 of the adapter that was to play; null: the model alone. */
    readonly adapter: string | null;
    readonly temperature: number;
    /** The first of the names from which, with the step, the scenario and the index in the group, every seed is derived. */
    readonly seedName: string;
    /** 0 of a validation. */
    readonly step: number;
  };
  /** Groups with what they earned: the step's own, and then those that replace some of them (--refill). */
  readonly afterCredit: {
    readonly groups: readonly (readonly Trajectory[])[];
    readonly rewards: readonly GroupReward[];
    readonly credited: readonly CreditedGroup[];
    readonly options: AdvantageOptions;
  };
  /** All that the update is made of; all steps before are committed. */
  readonly beforeUpdate: {
    readonly groups: readonly CreditedGroup[];
    /** Step 0 first. */
    readonly steps: readonly StepRow[];
    readonly learningRate: number;
    /** What it is to follow from, over so many steps. */
    readonly schedule: Schedule & { readonly steps: number };
  };
  /** The batch's file, and what its loss is a mean over. */
  readonly afterBatch: {
    readonly file: string;
    readonly batch: readonly BatchGroup[];
    /** Of the choice of the rollout that is compared. */
    readonly seed: number;
    /** No rollout of a group is masked: without `--mask-truncated` its advantages sum to 0. */
    readonly whole: boolean;
    /** Of the step, with the number of those that were played in place of some with advantages of 0. */
    readonly groups: readonly CreditedGroup[];
    readonly further: number;
    /** What the learner is told that the loss is a mean over. */
    readonly mean: { readonly rollouts: number; readonly sampledTokens: number };
  };
  /** What the learner is about to be asked for; also where it is asked once more. */
  readonly beforeAsking: { readonly asked: StepSettings };
  /** What the learner says of its update. */
  readonly afterUpdate: {
    readonly learnt: StepMetrics;
    readonly checkpoint: number | null;
    readonly earlier: EarlierPolicy | undefined;
    readonly lastUpdates: LastUpdates;
    readonly settings: MismatchSettings;
    readonly before: readonly StepMetrics["mismatch"][];
  };
  /** The step that was just committed, and what it was made of. */
  readonly afterCommit: {
    readonly step: number;
    readonly groups: readonly CreditedGroup[];
    readonly learnt: StepMetrics | null;
  };
  /** The engine, awake, with the adapter that it was told to load; or the error of that. */
  readonly afterWaking: {
    readonly loaded: { readonly reading: ProbeReading | null } | { readonly error: unknown };
    readonly settings: MismatchSettings;
    /** Of earlier steps with the numerics of the one that made the adapter, oldest first. */
    readonly before: readonly StepMetrics["mismatch"][];
    readonly adapter: string;
    readonly consequence: string;
  };
  /** The steps so far, when one of this process is settled; those of an earlier process are seen with it. */
  readonly afterSettling: {
    readonly steps: readonly StepMetricsRow[];
    readonly onlyReward: (count: number) => OnlyReward | undefined;
  };
}

/** undefined where there is nothing to say. */
type Look<M> = (seen: M) => Finding | undefined | Promise<Finding | undefined>;

export type Guard = {
  readonly name: string;
  /** What it sees, for docs/trust.md. */
  readonly sees: string;
} & { readonly [M in keyof Moments]?: Look<Moments[M]> };

/** What is wrong, for the user; undefined where nothing is. */
export type Wrong = string | undefined;

/** @throws HoneError where something is */
export function refuse(wrong: Wrong): void {
  if (wrong !== undefined) throw new HoneError(wrong);
}

/** The finding of a check that says what is wrong, or cannot read what it compares (HoneError). */
export async function demanding(demand: Demand, check: () => Wrong | Promise<Wrong>): Promise<Finding | undefined> {
  try {
    refuse(await check());
    return undefined;
  } catch (error) {
    if (error instanceof HoneError) return { demand, error };
    throw error;
  }
}

/** What the transaction does when it is demanded. */
export interface Acts {
  readonly note: (text: string) => void;
  /** Of the step that is played. */
  readonly dropRollouts: () => void;
  /** Nothing where the step is settled. */
  readonly takeBack: () => void;
}

/**
 * Asks each guard at a moment of the step, in the order of the list, and acts on what it demands.
 * @throws the error of the first that stops the run
 */
export async function heed<M extends keyof Moments>(
  guards: readonly Guard[],
  moment: M,
  seen: Moments[M],
  acts: Acts,
): Promise<void> {
  for (const guard of guards) {
    const finding = await (guard[moment] as Look<Moments[M]> | undefined)?.(seen);
    if (finding === undefined) continue;
    if (finding.demand === "note") {
      acts.note(finding.text);
      continue;
    }
    if (finding.demand === "drop these rollouts") acts.dropRollouts();
    if (finding.demand === "take the commit back") acts.takeBack();
    throw finding.error;
  }
}
