/** Scenarios, how rollouts of them end, and rewards. */

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

export type RolloutEnd =
  /** With a final tool, or in a task without one in plain text. */
  | "answered"
  /** Plain text in a task with a final tool; or neither text nor a call. */
  | "no_tool_call"
  | "turn_limit"
  | "token_limit"
  | "context_limit"
  | "deadline"
  | "tool_failure"
  | "bad_call"
  /** A task's own code ended behind a call of the model, whose result the model was not given: by its own limit, for example. */
  | "open_call"
  /** A task's own code ended with an error for a mistake of the model, such as an answer in another form. */
  | "model_mistake";
