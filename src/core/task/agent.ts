/**
 * A task played by the user's own agent: its code holds the conversation, runs the tools and returns the reward, with a
 * model served by hone. See docs/agents.md.
 */
import type { LanguageModelV3 } from "@ai-sdk/provider";
import { checkOutcome, REWARD_FIELDS, shown, unknownField } from "./fields.js";
import type { Reward, RolloutEnd, Scenario } from "./scenario.js";

export interface ProgramOptions {
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

/** A program that `run` started did not exit with code 0. */
export class ProgramError extends Error {
  override readonly name = "ProgramError";

  constructor(
    message: string,
    /** null where a signal ended it. */
    readonly code: number | null,
    /** The exception that ended it and those that caused it, outermost first, by their names in its standard error. */
    readonly exceptions: readonly { readonly names: readonly string[]; readonly message: string }[],
  ) {
    super(message);
  }
}

/** An error with which an agent's code ended: in its rollout, or in a program that the rollout ran. */
export interface AgentFailure<S extends Scenario = Scenario> {
  readonly scenario: S;
  /** As it was thrown; a {@link ProgramError} of `run`. */
  readonly error: unknown;
  readonly message: string;
  /**
   * Names of the error's class and of those that it extends, and of its causes, without modules; of a program, of the last
   * exception in its standard error.
   */
  readonly names: readonly string[];
  /** Turns that the model has had. */
  readonly turns: number;
  /** What the model did wrong in its last turn, by hone's record; undefined where that shows nothing wrong. */
  readonly evidence: string | undefined;
  /** How the rollout ends unless the task says otherwise; undefined: it has failed. */
  readonly end: RolloutEnd | undefined;
}

interface Judge<S extends Scenario> {
  // A method: a task is one of any scenarios, too.
  judge(failure: AgentFailure<S>): boolean | number | Reward | undefined;
}

/**
 * Errors of an agent's code that are mistakes of the model: names of exceptions, in addition to those that hone knows; or a
 * function that says so: true (the rollout earns 0) or its reward, false for a fault of the program, undefined for what hone
 * makes of it.
 */
export type ModelMistakes<S extends Scenario = Scenario> = readonly string[] | Judge<S>["judge"];

/** As `console` and the loggers of clients have it. Each line goes into the rollout's output. */
export type Logger = Readonly<Record<"log" | "debug" | "info" | "warn" | "error", (...values: unknown[]) => void>>;

/** A rollout, to its set-up and tear-down. */
export interface RolloutContext<S extends Scenario = Scenario, E = unknown> {
  readonly scenario: S;
  /** The environment that the task opened on this thread. */
  readonly env: E;
  /** Of this rollout alone: what is drawn by it is the same when the rollout is played again. */
  readonly seed: number;
  /** Position in its group, from 0. */
  readonly index: number;
  /** Step of the training; 0 where nothing is trained. */
  readonly step: number;
  readonly logger: Logger;
  /** Aborted when the time is over: for `rollout` at the rollout's deadline. */
  readonly signal: AbortSignal;
  /**
   * Runs a program as part of the rollout, with `OPENAI_BASE_URL` and `OPENAI_API_KEY` set. The program and its child
   * processes end with the rollout. Rejects with a {@link ProgramError} unless it exits with code 0.
   */
  run(command: string, args?: readonly string[], options?: ProgramOptions): Promise<Ran>;
}

export interface AgentContext<S extends Scenario = Scenario, E = unknown, F = unknown> extends RolloutContext<S, E> {
  /** The model for the AI SDK, in this process. */
  readonly model: LanguageModelV3;
  /** The same model by an OpenAI-compatible API on this machine, for all other clients. */
  readonly baseUrl: string;
  /** Identifies this rollout: a request with this key is part of it. */
  readonly apiKey: string;
  /** What `setUp` returned. */
  readonly fixture: F;
}

/** Plays one rollout. A number is a reward of one part; from 1 on the scenario counts as solved. */
export type AgentRollout<S extends Scenario = Scenario, E = unknown, F = unknown> = (
  context: AgentContext<S, E, F>,
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
    throw new Error(`rollout returned ${shown(returned)}; return a finite number, or { reward, success, parts }`);
  }
  const unknown = unknownField(Object(returned), REWARD_FIELDS, "a reward");
  if (unknown !== undefined) throw new Error(`rollout returned ${unknown}`);
  const whole = { reward, success: success ?? reward >= 1, parts };
  checkOutcome(whole, "what rollout returned");
  return whole;
}
