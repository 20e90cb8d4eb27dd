/**
 * One player in one conversation. The rollout loop talks to a session in turns; behind it may be the engine, a model
 * behind an OpenAI-compatible API, or the task's scripted expert.
 */
import type { CallRecord, ChatMessage, ToolSchema } from "../tasks/index.js";
import type { WrittenTurn } from "./formats/index.js";
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
  | "deadline";

export interface Turn extends WrittenTurn {
  /** `content` without the player's thoughts, where it has any. Default `content`. */
  said?: string;
  /** Tokens the player wrote, a stop token included. */
  completionTokens: number;
  stop: TurnStop;
  /** Seconds of the turn in which the player could not play: it waited for its turn at the engine. Default 0. */
  waitedSeconds?: number;
}

export interface TurnLimits {
  /** Tokens at most. */
  readonly maxTokens: number;
  /** Milliseconds of the clock (`Date.now()`). */
  readonly deadline: number;
  /** Aborted when nobody wants the rollout any more: `turn` then rejects. */
  readonly signal: AbortSignal;
}

export interface Session {
  /** The next assistant turn. Rejects only for reasons that are not the player's doing. */
  turn(limits: TurnLimits): Promise<Turn>;
  /**
   * Tells the player what its calls returned, one message for each call, in order; or, after a turn of plain text,
   * what the user answers to that.
   */
  respond(messages: readonly ChatMessage[], calls: readonly CallRecord[]): void;
  /** Tokens of the conversation, for players that have them. */
  tokens(): TokenRecord | undefined;
  /** Tokens given to the player that were not written by it: prompt, template and tool results. */
  promptTokens(): number;
  close(): void;
}
