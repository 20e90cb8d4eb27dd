/**
 * One player in one conversation. The rollout loop calls a session turn by turn; its implementation may be the engine, a
 * model behind an OpenAI-compatible API, or the task's scripted expert.
 */
import type { CallRecord, ChatMessage, ToolSchema } from "../task/task.js";
import type { WrittenTurn } from "./conversation.js";
import type { TokenRecord } from "./transcript.js";

export interface Opening {
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ToolSchema[];
}

export type TurnStop =
  /** The player ended its turn. */
  | "stop"
  /** The turn reached its token limit. */
  | "length"
  /** No room is left in the context. */
  | "context"
  /** The time is over, of the turn or of the whole rollout. */
  | "deadline";

export interface Turn extends WrittenTurn {
  /** `content` without the player's thoughts, if it has any. Default `content`. */
  said?: string;
  /** Tokens that the player wrote, including a stop token. */
  completionTokens: number;
  stop: TurnStop;
  /** Seconds of the turn in which the player waited for the engine. Default 0. */
  waitedSeconds?: number;
}

export interface TurnLimits {
  /** Tokens at most. */
  readonly maxTokens: number;
  /** Seconds that the player may use; an engine does not count those in which it serves others. */
  readonly seconds: number;
  /** Aborted when the time of the whole rollout is over: the turn ends as by its own limit. */
  readonly over?: AbortSignal | undefined;
  /** Aborted when the rollout is cancelled: `turn` then rejects. */
  readonly signal: AbortSignal;
}

export interface Session {
  /** The next assistant turn. Rejects only for reasons that are not the player's fault. */
  turn(limits: TurnLimits): Promise<Turn>;
  /**
   * Gives the player the results of its calls, one message per call, in order; or, after a turn of plain text, the user's
   * reply.
   */
  respond(messages: readonly ChatMessage[], calls: readonly CallRecord[]): void;
  /** Tokens of the conversation, of players that have tokens. */
  tokens?(): TokenRecord;
  /** Tokens given to the player: prompt, template and tool results. Default 0. */
  promptTokens?(): number;
  close(): void;
}
