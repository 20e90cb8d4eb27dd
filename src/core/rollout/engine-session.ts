/**
 * The engine as a player. Token-exact: sampled tokens are stored unchanged, a later turn only appends the template's text
 * between turns, and no text is tokenised twice.
 */

import type { Engine } from "../engine/engine.js";
import type { Sampling, Sequence } from "../engine/sequence.js";
import type { ChatMessage } from "../task/task.js";
import type { ConversationFormat } from "./conversation.js";
import { readTurn, withIds } from "./reading.js";
import { sampleTurn } from "./sample.js";
import type { Opening, Session, Turn, TurnLimits } from "./session.js";
import { type TokenRecord, Transcript } from "./transcript.js";

/** Sampling without the seed, which differs between rollouts. */
export type SamplingSettings = Omit<Sampling, "seed">;

export class EngineSession implements Session {
  readonly #engine: Engine;
  readonly #chat: ConversationFormat;
  readonly #sequence: Sequence;
  readonly #opening: Opening;
  readonly #sampling: Sampling;
  readonly #transcript = new Transcript();
  /** Ids that the next turn begins with, not yet in the sequence. */
  #pending: number[] = [];
  /** Whether the last turn ended with a closing token of the template. */
  #closed = true;
  /** Number of calls so far, for their ids. */
  #calls = 0;

  constructor(
    engine: Engine,
    chat: ConversationFormat,
    sequence: Sequence,
    opening: Opening,
    prompt: ArrayLike<number>,
    sampling: Sampling,
  ) {
    this.#engine = engine;
    this.#chat = chat;
    this.#sequence = sequence;
    this.#opening = opening;
    this.#sampling = sampling;
    this.#transcript.given(Array.from(prompt));
  }

  async turn(limits: TurnLimits): Promise<Turn> {
    let waitedSeconds = 0;
    const { segment, text, stop, stopToken } = await sampleTurn(
      this.#engine,
      this.#chat,
      this.#sequence,
      this.#pending,
      {
        ...limits,
        sampling: this.#sampling,
        limitThoughts: true,
        onWaited: (seconds) => {
          waitedSeconds += seconds;
        },
      },
    );
    const completionTokens = segment.sampled.reduce((count, one) => count + one, 0);
    // The transcript is unchanged then.
    if (completionTokens === 0) {
      return { content: "", calls: [], completionTokens, stop, waitedSeconds };
    }
    this.#transcript.given(this.#pending);
    this.#transcript.add(segment);
    this.#pending = [];
    this.#closed = stopToken && this.#chat.closing.includes(segment.ids.at(-1) as number);
    return { ...this.#read(text), completionTokens, stop, waitedSeconds };
  }

  /** Calls are read from the text after the thoughts; without tools everything is text. */
  #read(text: string): Pick<Turn, "content" | "said" | "calls"> {
    const { content, said, calls } = readTurn(this.#chat, text, this.#opening.tools);
    if (!this.#chat.template.usesIds) return { content, said, calls };
    const before = this.#calls;
    this.#calls += calls.length;
    return { content, said, calls: withIds(calls, before) };
  }

  respond(messages: readonly ChatMessage[]): void {
    const { messages: before, tools } = this.#opening;
    this.#pending = this.#chat.template.delta(before, tools, messages, this.#closed);
  }

  tokens(): TokenRecord {
    const record = this.#transcript.record();
    if (this.#closed || this.#pending.length > 0) return record;
    // After a truncated turn the template's closing token is appended as given, not sampled.
    const { ids, sampled, logprobs } = record;
    const closing = this.#chat.template.closing.id;
    return { ...record, ids: [...ids, closing], sampled: [...sampled, 0], logprobs: [...logprobs, 0] };
  }

  promptTokens(): number {
    return this.#transcript.givenCount;
  }

  close(): void {
    this.#sequence.close();
  }
}
