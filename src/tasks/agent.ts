/**
 * A task that people's own agent plays: its code has the conversation, runs the tools and says the reward, with a model
 * from hone. docs/agents.md describes it.
 */
import type { LanguageModelV3 } from "@ai-sdk/provider";
import type { Reward, Scenario } from "./scenario.js";

export interface RunOptions {
  /** Default the folder that hone was started in. */
  readonly cwd?: string;
  /** Beside those of hone's own process and the endpoint's. */
  readonly env?: Readonly<Record<string, string>>;
  /** Written to its standard input, which then ends. */
  readonly input?: string;
}

/** Output of a program that ended with code 0. */
export interface Ran {
  readonly stdout: string;
  readonly stderr: string;
}

export interface AgentContext<S extends Scenario = Scenario, E = unknown> {
  readonly scenario: S;
  /** Opened by the task on this thread. */
  readonly env: E;
  /** The model for the AI SDK, in this process. */
  readonly model: LanguageModelV3;
  /** The same model by OpenAI's API on this machine, for everything else. */
  readonly baseUrl: string;
  /** Names this rollout: a request with it is part of it. */
  readonly apiKey: string;
  /** Aborted when the rollout's time is over. */
  readonly signal: AbortSignal;
  /**
   * Runs a program that is part of the rollout, with `OPENAI_BASE_URL` and `OPENAI_API_KEY` set. It ends with the rollout,
   * and so do processes that it started. Rejects with its last output when it ends otherwise than with code 0.
   */
  run(command: string, args?: readonly string[], options?: RunOptions): Promise<Ran>;
}

/** Plays one rollout. A number is a reward of one part; from 1 on the scenario counts as solved. */
export type AgentRollout<S extends Scenario = Scenario, E = unknown> = (
  context: AgentContext<S, E>,
) => number | Reward | Promise<number | Reward>;

/** The reward that an agent returned. @throws Error for any other value */
export function rewardReturned(returned: unknown): Reward {
  const {
    reward,
    success,
    parts = {},
  } = (
    typeof returned === "number" ? { reward: returned, success: returned >= 1 } : (returned ?? {})
  ) as Partial<Reward>;
  if (typeof reward !== "number" || !Number.isFinite(reward)) {
    const shown = JSON.stringify(returned) ?? String(returned);
    throw new Error(`rollout returned ${shown.slice(0, 100)}; return a finite number, or { reward, success, parts }`);
  }
  return { reward, success: success ?? reward >= 1, parts };
}
