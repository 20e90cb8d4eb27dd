/**
 * The engine as a player. Token-exact: what is sampled is kept as it was sampled, a later turn only appends what the
 * template puts between, and nothing is ever tokenised twice.
 */
import type { Engine, Sampling, Sequence } from "../engine/index.js";
import type { ChatMessage } from "../tasks/index.js";
import { HoneError } from "../util/index.js";
import type { Opening, Session, Turn, TurnLimits } from "./session.js";
import { ChatTemplate } from "./template.js";
import { readToolCalls, usesHermesCalls } from "./tool-calls.js";
import { type TokenRecord, Transcript } from "./transcript.js";

/** Sampling without the seed, which each rollout has of its own. */
export type SamplingSettings = Omit<Sampling, "seed">;

/**
 * The chat template of the engine's model.
 *
 * @throws HoneError when the model has none, or one whose tool calls hone does not speak
 */
export function templateOf(engine: Engine): ChatTemplate {
  const { chatTemplate, model, bosText, eosText, controlTokens } = engine.info;
  if (chatTemplate === null) {
    throw new HoneError(`${model} has no chat template (tokenizer.chat_template); use the instruct form of the model`);
  }
  if (!usesHermesCalls(chatTemplate)) {
    throw new HoneError(
      `the chat template of ${model} has no <tool_call>: hone reads tool calls in the Hermes form, as Qwen2.5, Qwen3 and Hermes models write them`,
    );
  }
  return new ChatTemplate(chatTemplate, {
    tokenize: (text) => engine.tokenize(text, { special: false }),
    controlTokens,
    bosText,
    eosText,
  });
}

export class EngineSession implements Session {
  readonly #engine: Engine;
  readonly #template: ChatTemplate;
  readonly #sequence: Sequence;
  readonly #opening: Opening;
  readonly #sampling: Sampling;
  readonly #stop: readonly number[];
  readonly #transcript = new Transcript();
  /** Ids that the next turn starts with, not yet in the sequence. */
  #pending: number[] = [];
  /** Did the last turn end with the template's own closing token? */
  #closed = true;

  constructor(
    engine: Engine,
    template: ChatTemplate,
    sequence: Sequence,
    opening: Opening,
    prompt: ArrayLike<number>,
    sampling: Sampling,
  ) {
    this.#engine = engine;
    this.#template = template;
    this.#sequence = sequence;
    this.#opening = opening;
    this.#sampling = sampling;
    this.#stop = [...new Set([template.closing.id, ...engine.info.endTokens])];
    this.#transcript.given(Array.from(prompt));
  }

  async turn(limits: TurnLimits): Promise<Turn> {
    const none: Turn = { content: "", calls: [], completionTokens: 0, stop: "context" };
    const append = Int32Array.from(this.#pending);
    if (this.#transcript.length + append.length >= this.#engine.info.contextPerSequence) return none;
    const asked = performance.now();
    const { tokens, logprobs, stop, waitedSeconds } = await this.#sequence.generate({
      append,
      maxTokens: limits.maxTokens,
      sampling: this.#sampling,
      stop: this.#stop,
      deadline: limits.deadline,
      signal: limits.signal,
    });
    if (stop === "cancelled") {
      limits.signal.throwIfAborted();
      throw new HoneError("the sequence was closed while it was in use");
    }
    // Without a sampled token the transcript stays as it was: the deadline may have come before the appended tokens were
    // evaluated. All of that time counts as waiting: the engine served other sequences, or evaluated the appended tokens.
    if (tokens.length === 0) return { ...none, stop, waitedSeconds: (performance.now() - asked) / 1000 };

    this.#transcript.given(this.#pending);
    this.#transcript.sampled(tokens, logprobs);
    this.#pending = [];
    const ended = stop === "stop";
    this.#closed = ended && tokens.at(-1) === this.#template.closing.id;
    const text = this.#engine.detokenize(ended ? tokens.subarray(0, -1) : tokens, { special: true });
    return { ...readToolCalls(text), completionTokens: tokens.length, stop, waitedSeconds };
  }

  respond(messages: readonly ChatMessage[]): void {
    const { messages: before, tools } = this.#opening;
    this.#pending = this.#template.delta(before, tools, messages, this.#closed);
  }

  tokens(): TokenRecord {
    const record = this.#transcript.record();
    if (this.#closed || this.#pending.length > 0) return record;
    // After a cut the template's closing token makes the last turn whole, as something given, not sampled.
    const { ids, sampled, logprobs } = record;
    return { ids: [...ids, this.#template.closing.id], sampled: [...sampled, 0], logprobs: [...logprobs, 0] };
  }

  promptTokens(): number {
    return this.#transcript.givenCount;
  }

  close(): void {
    this.#sequence.close();
  }
}
