/**
 * A task played by the user's own agent: its code holds the conversation, runs the tools and returns the reward, with a
 * model served by hone. See docs/agents.md.
 */
import type { LanguageModelV3 } from "@ai-sdk/provider";
import type { Reward, Scenario } from "./scenario.js";

export interface RunOptions {
  /** Default: the folder in which hone was started. */
  readonly cwd?: string;
  /** In addition to the environment of hone's process and the endpoint's variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** Written to its standard input, which is then closed. */
  readonly input?: string;
}

/** Output of a program that exited with code 0. */
export interface Ran {
  readonly stdout: string;
  readonly stderr: string;
}

export interface AgentContext<S extends Scenario = Scenario, E = unknown> {
  readonly scenario: S;
  /** The environment that the task opened on this thread. */
  readonly env: E;
  /** The model for the AI SDK, in this process. */
  readonly model: LanguageModelV3;
  /** The same model by an OpenAI-compatible API on this machine, for all other clients. */
  readonly baseUrl: string;
  /** Identifies this rollout: a request with this key is part of it. */
  readonly apiKey: string;
  /** Aborted at the rollout's deadline. */
  readonly signal: AbortSignal;
  /**
   * Runs a program as part of the rollout, with `OPENAI_BASE_URL` and `OPENAI_API_KEY` set. The program and its child
   * processes end with the rollout. Rejects with its last output unless it exits with code 0.
   */
  run(command: string, args?: readonly string[], options?: RunOptions): Promise<Ran>;
}

/** Plays one rollout. A number is a reward of one part; from 1 on the scenario counts as solved. */
export type AgentRollout<S extends Scenario = Scenario, E = unknown> = (
  context: AgentContext<S, E>,
) => number | Reward | Promise<number | Reward>;

/** Converts the return value of an agent to a reward. @throws Error when it is invalid */
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
