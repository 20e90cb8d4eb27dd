/**
 * The engine as a player. Token-exact: sampled tokens are stored unchanged, a later turn only appends the template's text
 * between turns, and no text is tokenised twice.
 */
import type { Engine, Generated, Sampling, Sequence } from "../engine/index.js";
import type { ChatMessage } from "../tasks/index.js";
import { HoneError } from "../util/index.js";
import type { Chat } from "./chat.js";
import { readTurn, stopIds, withIds } from "./reading.js";
import type { Opening, Session, Turn, TurnLimits } from "./session.js";
import { splitThoughts } from "./thoughts.js";
import { type TokenRecord, Transcript } from "./transcript.js";

/** Sampling without the seed, which differs between rollouts. */
export type SamplingSettings = Omit<Sampling, "seed">;

interface Sampled extends Pick<Generated, "tokens"> {
  readonly stop: Turn["stop"];
  readonly waitedSeconds: number | undefined;
}

const waited = (seconds: number | undefined) => (seconds === undefined ? {} : { waitedSeconds: seconds });

export class EngineSession implements Session {
  readonly #engine: Engine;
  readonly #chat: Chat;
  readonly #sequence: Sequence;
  readonly #opening: Opening;
  readonly #sampling: Sampling;
  readonly #stop: readonly number[];
  readonly #transcript = new Transcript();
  /** Ids that the next turn begins with, not yet in the sequence. */
  #pending: number[] = [];
  /** Whether the last turn ended with a closing token of the template. */
  #closed = true;
  /** Number of calls so far, for their ids. */
  #calls = 0;

  constructor(
    engine: Engine,
    chat: Chat,
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
    this.#stop = stopIds(chat, engine.info.endTokens);
    this.#transcript.given(Array.from(prompt));
  }

  async turn(limits: TurnLimits): Promise<Turn> {
    const { marks, opened, maxThinkingTokens = Number.POSITIVE_INFINITY } = this.#chat;
    const { maxTokens } = limits;
    const ids: number[] = [];
    const first = await this.#sample(this.#pending, Math.min(maxTokens, maxThinkingTokens), limits);
    let { stop, waitedSeconds } = first;
    let completionTokens = first.tokens.length;
    if (completionTokens === 0) return { content: "", calls: [], completionTokens, stop, ...waited(waitedSeconds) };
    this.#pending = [];
    ids.push(...first.tokens);
    if (stop === "length" && maxThinkingTokens < maxTokens) {
      // Unfinished thoughts are closed with tokens that were not sampled. Other turns continue.
      const thinking = splitThoughts(this.#engine.detokenize(ids, { special: true }), marks, opened).open;
      const ending = thinking && marks ? this.#chat.template.encode(marks.ending) : [];
      const rest = await this.#sample(ending, maxTokens - completionTokens, limits);
      if (rest.tokens.length > 0) ids.push(...ending, ...rest.tokens);
      stop = rest.stop;
      completionTokens += rest.tokens.length;
      waitedSeconds = (waitedSeconds ?? 0) + (rest.waitedSeconds ?? 0);
    }
    const ended = stop === "stop";
    this.#closed = ended && this.#chat.closing.includes(ids.at(-1) as number);
    const text = this.#engine.detokenize(ended ? ids.slice(0, -1) : ids, { special: true });
    return { ...this.#read(text), completionTokens, stop, ...waited(waitedSeconds) };
  }

  /** Appends ids and samples up to `maxTokens`. If nothing was sampled, the appended ids are not kept either. */
  async #sample(append: readonly number[], maxTokens: number, limits: TurnLimits): Promise<Sampled> {
    if (this.#transcript.length + append.length >= this.#engine.info.contextPerSequence) {
      return { tokens: new Int32Array(), stop: "context", waitedSeconds: undefined };
    }
    const asked = performance.now();
    const { tokens, logprobs, stop, waitedSeconds } = await this.#sequence.generate({
      append: Int32Array.from(append),
      maxTokens,
      sampling: this.#sampling,
      stop: this.#stop,
      deadline: limits.deadline,
      signal: limits.signal,
    });
    if (stop === "cancelled") {
      limits.signal.throwIfAborted();
      throw new HoneError("the sequence was closed while it was in use");
    }
    // Without a sampled token the transcript is unchanged: the deadline may have passed before the appended tokens were
    // evaluated. All of that time counts as waiting: the engine served other sequences, or evaluated the appended tokens.
    if (tokens.length === 0) return { tokens, stop, waitedSeconds: (performance.now() - asked) / 1000 };
    this.#transcript.given(append);
    this.#transcript.sampled(tokens, logprobs);
    return { tokens, stop, waitedSeconds };
  }

  /** Calls are read from the text after the thoughts; without tools everything is text. */
  #read(text: string): Pick<Turn, "content" | "said" | "calls"> {
    const { content, said, calls } = readTurn(this.#chat, text, this.#opening.tools.length > 0);
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
    return { ids: [...ids, this.#chat.template.closing.id], sampled: [...sampled, 0], logprobs: [...logprobs, 0] };
  }

  promptTokens(): number {
    return this.#transcript.givenCount;
  }

  close(): void {
    this.#sequence.close();
  }
}
