/** Where the turns of a {@link languageModel} are sampled: in this process, or by a server. Both answer as /v1/chat/completions. */
import type { Usage } from "../../serve/answers.js";
import type { ServedModel } from "../../serve/model.js";
import type { ChatRequest, writtenCall } from "../../serve/requests.js";
import type { Turns } from "../../serve/turns.js";

/** A turn of the model, or a piece of one. */
export interface Said {
  readonly content?: string | null;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly ReturnType<typeof writtenCall>[];
}

export interface Choice {
  /** Of an answer that is whole. */
  readonly message?: Said;
  /** Of a chunk. */
  readonly delta?: Said;
  /** Null before the last chunk. */
  readonly finish_reason: string | null;
  readonly hone?: ReturnType<Turns["problemsOf"]>;
}

/** What is read of an answer, or of a chunk of one. */
export interface Answered {
  readonly choices: readonly Choice[];
  /** Of an answer that is whole, and of the last chunk. */
  readonly usage?: Usage | null;
  readonly hone?: Turns["hone"];
}

export interface Source {
  /** The model's id. */
  readonly name: string;
  /** As errors name it. */
  readonly url: string;
  /** Of a model of this process: what it does not do as requests ask; it is told of one that is refused before it is asked. */
  readonly rules?: Pick<ServedModel, "enforces" | "fixedTemperature" | "onError">;
  /**
   * The one answer to a request, or with `stream` its chunks.
   *
   * @throws ApiError, ChatError
   */
  ask(request: ChatRequest, signal: AbortSignal): AsyncIterable<Answered>;
}
