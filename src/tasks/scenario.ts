/** Scenarios and rewards: plain data. */

export type Split = "train" | "test";

/** One question to play. Plain data: it is sent to workers and written to files as JSON. */
export interface Scenario {
  /** Unique within the task and stable from run to run. */
  readonly id: string;
  readonly split: Split;
  /** What the user asks. */
  readonly question: string;
  /** What sort of question it is, where there are several: success is then also shown for each. */
  readonly kind?: string;
}

/** A reward with what it is made of. Pure: the same rollout gives the same reward again from its file. */
export interface Reward {
  /** What training pushes up. Any finite number. */
  reward: number;
  /** Was the scenario solved? What accuracy counts. */
  success: boolean;
  /** Named parts, for reports. */
  parts: Record<string, number>;
}
