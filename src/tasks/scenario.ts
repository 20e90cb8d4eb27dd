/** Scenarios and rewards. */

export type Split = "train" | "test";

/** One question to play. Plain data: it is sent to workers and written to files as JSON. */
export interface Scenario {
  /** Unique within the task and stable from run to run. */
  readonly id: string;
  readonly split: Split;
  /** The user's question. */
  readonly question: string;
  /** Category of the question, if there are several: success is also reported for each. */
  readonly kind?: string;
}

/** A reward and its parts. A pure function of the rollout: computed again from its file it is the same. */
export interface Reward {
  /** The quantity maximised by training. Any finite number. */
  reward: number;
  /** Whether the scenario was solved; counted by accuracy. */
  success: boolean;
  /** Named parts, for reports. */
  parts: Record<string, number>;
}
