/**
 * A served model: an engine with its adapter, its chat format, and its recorded conversations. One completion is one
 * turn; HTTP is handled elsewhere.
 */
import { randomInt } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Chat } from "../chat/chat.js";
import { formatNames } from "../chat/formats/formats.js";
import type { Engine } from "../core/engine/engine.js";
import type { Grammar, Sampling, ScoredToken, Sequence } from "../core/engine/sequence.js";
import { type ReadTurn, readTurn, withIds } from "../core/rollout/reading.js";
import { type SampledTurn, sampleTurn } from "../core/rollout/sample.js";
import type { ChatMessage, ToolCall, ToolSchema } from "../core/task/task.js";
import { HoneError, UsageError } from "../core/util/errors.js";
import { deriveSeed } from "../core/util/random.js";
import { tokenizeWithin } from "../engine/tokenize-within.js";
import { badRequest, tooLong, unsupported } from "./errors.js";
import type { CallForm, Format } from "./formats.js";
import { canonical } from "./messages.js";
import { idsOf, type Point, Recorder } from "./recorder.js";
import type { Asked } from "./requests.js";
import { ResponseStore } from "./responses-store.js";
import { Seats } from "./seats.js";

/** Maximum number of waiting completions: more than the connections of a busy agent, few enough to be served soon. */
const MOST_WAITING = 512;

/** Notes at most: clients choose what they say. */
const MOST_NOTES = 1000;

/** Formats with other values of a template's variables that are kept. */
const MOST_CHATS = 8;

/** Sampling parameters of a completion. */
export interface Wanted {
  readonly sampling: Sampling;
  readonly maxTokens: number | undefined;
  readonly stopTexts: readonly string[];
  readonly likeliest: number | undefined;
  /** The form of the turn; undefined: it is free. */
  readonly grammar?: Grammar | undefined;
  /** Log-probabilities are those under the grammar. */
  readonly restricts?: boolean | undefined;
  /** Where answers tell whether they have the form that is asked for: finds the first deviation. */
  readonly format?: Format | undefined;
  /** The same of calls. */
  readonly callForm?: CallForm | undefined;
  /** As in `GenerateOptions`. */
  readonly seconds?: number | undefined;
  /** The tool whose call is demanded by name. */
  readonly demanded?: string | undefined;
  readonly signal: AbortSignal;
  readonly onText: ((text: string) => void) | undefined;
  readonly onWaited?: (seconds: number) => void;
}

/** A request's conversation, prepared for sampling. */
export interface Conversation {
  /** The recorded turn that it continues. */
  readonly point: Point | null;
  /** Token ids after the point. */
  readonly append: readonly number[];
  /** Messages behind it; all where there is none. */
  readonly next: readonly ChatMessage[];
  readonly key: string;
  readonly tools: readonly ToolSchema[];
  /** The model's format, with the request's values of the template's variables. */
  readonly chat: Chat;
  /** Number of messages in the first prompt. */
  readonly opening: number;
  /** Number of tokens before the new turn. */
  readonly length: number;
  /** Number of the model's turns that the client has rewritten, in the whole conversation. */
  readonly rewritten: number;
}

export interface Answer extends Pick<SampledTurn, "segment" | "stop" | "stopToken" | "tokens"> {
  readonly read: ReadTurn;
  readonly calls: readonly ToolCall[];
  /** Number of tokens reused from the KV of the conversation's own sequence. */
  readonly kept: number;
  /** The turn as it is recorded. */
  readonly point: Point;
}

const anySeed = () => randomInt(2 ** 47);

/** Seed of each completion of a request: the first has the request's own. */
export const seedOf = (seed: number, index: number) => (index === 0 ? seed : deriveSeed(seed, index));

export class ServedModel {
  readonly recorder: Recorder;
  /** Responses that later requests may name. */
  readonly responses = new ResponseStore();
  /** Whether turns are sampled in the form that a request demands. */
  readonly enforces: boolean = true;
  /** Whether each answer tells of deviations from the form that a request demands. */
  readonly checksForm: boolean = false;
  /** The temperature of every turn; undefined: each request's own. */
  readonly fixedTemperature: number | undefined;
  /** Numbers of requests. */
  readonly counts = { begun: 0, continued: 0, rewritten: 0 };

  /** @param names accepted from clients */
  constructor(
    readonly names: readonly [string, ...string[]],
    readonly engine: Engine,
    readonly chat: Chat,
    bounds?: { tokens: number; points: number },
    readonly seats = new Seats<Point>(engine.info.sequences, MOST_WAITING),
  ) {
    this.recorder = new Recorder((point) => this.seats.close(point), bounds);
  }

  get name(): string {
    return this.names[0];
  }

  readonly #chats = new LRUCache<string, Chat>({ max: MOST_CHATS });

  /**
   * The format with a request's values of the template's variables (`chat_template_kwargs`).
   *
   * @throws ApiError (400) for variables that the template has not
   */
  chatWith(args: Readonly<Record<string, unknown>> | null | undefined): Chat {
    if (args == null || Object.keys(args).length === 0) return this.chat;
    const key = canonical(args);
    const known = this.#chats.get(key);
    if (known) return known;
    try {
      const chat = this.chat.with(args);
      this.#chats.set(key, chat);
      return chat;
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      throw unsupported(error.message.replace(/^--template-arg /, "chat_template_kwargs: "), "chat_template_kwargs");
    }
  }

  /** Told of what requests demand and nothing enforces, each thing once. */
  onNote: (text: string) => void = () => undefined;
  readonly #noted = new Set<string>();

  /** @param what the parts of a request's form that turns need not have */
  noteUnenforced(what: readonly string[]): void {
    for (const text of what) {
      if (this.#noted.has(text) || this.#noted.size >= MOST_NOTES) continue;
      this.#noted.add(text);
      this.onNote(text);
    }
  }

  /** @throws ApiError (400) for an option that this model does not obey, though others do */
  checkOptions(_asked: Asked): void {}

  /** Called with the error that a request is answered with. */
  onError(_error: unknown): void {}

  /** The seed of a request's first completion. */
  requestSeed({ seed }: Asked): number {
    return seed ?? anySeed();
  }

  /**
   * Finds the recorded conversation that a request continues, and the new tokens.
   *
   * @param chat of `chatWith`; conversations of different formats are kept apart
   * @throws ApiError (400) when the model's template refuses the messages, or they do not fit the context
   * @throws the signal's reason when it is aborted while long texts are tokenised
   */
  async find(
    messages: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    chat: Chat,
    signal?: AbortSignal,
  ): Promise<Conversation> {
    const { template, format } = chat;
    const { contextPerSequence: room, longestToken } = this.engine.info;
    const refused = () => tooLong(undefined, room, "messages");
    // Before they are hashed and rendered: every message has a token of the template's, and no token is longer.
    const characters = messages.reduce((sum, { content }) => sum + content.length, 0);
    if (messages.length >= room || characters >= room * longestToken) throw refused();
    if (tools.length > 0 && !format) {
      throw badRequest(
        `the chat template of ${this.name} writes tool calls in no format that hone reads: name one with --tool-format (${formatNames()}), or take another model`,
        "tools",
      );
    }
    this.#checkShown(chat, messages, tools);
    const scope = chat === this.chat ? "" : canonical(template.args);
    const { point, next, key, rewritten } = this.recorder.find(messages, tools, scope);
    const opening = point?.opening ?? messages.length;
    const most = room - 1 - (point?.length ?? 0);
    const tokenize = (text: string) => tokenizeWithin(this.engine, text, { special: false, most, signal });
    let append: readonly number[] | null;
    try {
      append = point
        ? await template.deltaWithin({ most, tokenize }, messages.slice(0, opening), tools, next, point.closed)
        : await template.promptWithin({ most, tokenize }, messages, tools);
    } catch (error) {
      if (error instanceof HoneError && !signal?.aborted) throw badRequest(error.message, "messages");
      throw error;
    }
    if (append === null) throw refused();
    const length = (point?.length ?? 0) + append.length;
    return { point, append, next, key, tools, chat, opening, length, rewritten: (point?.rewritten ?? 0) + rewritten };
  }

  /** As {@link find}, for a request that has a turn: it is counted. */
  async converse(
    messages: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    chat: Chat = this.chat,
    signal?: AbortSignal,
  ): Promise<Conversation> {
    const found = await this.find(messages, tools, chat, signal);
    this.counts[found.point ? "continued" : "begun"]++;
    this.counts.rewritten += found.rewritten - (found.point?.rewritten ?? 0);
    return found;
  }

  /** @throws ApiError (400) when neither the template nor the messages say what the tools are */
  #checkShown(chat: Chat, messages: readonly ChatMessage[], tools: readonly ToolSchema[]): void {
    if (chat.showsTools || tools.length === 0) return;
    const system = messages.filter(({ role }) => role === "system");
    // Not every template has a system message.
    const told = (system.length > 0 ? system : messages.slice(0, 1)).flatMap(({ content }) => content.split(/[^\w-]+/));
    const hidden = tools.find((tool) => !told.includes(tool.function.name));
    if (!hidden) return;
    throw badRequest(
      `the chat template of ${this.name} shows no tools, and the system message does not name '${hidden.function.name}': describe the tools and their calls there, or serve a model whose template has tools`,
      "tools",
    );
  }

  /** Samples and records one turn. @throws the signal's reason when it is aborted */
  answer(conversation: Conversation, wanted: Wanted): Promise<Answer> {
    const { point, append, tools, chat } = conversation;
    return this.seats.run(wanted.signal, async () => {
      const idle = point && this.seats.take(point);
      let sequence: Sequence | undefined = idle || undefined;
      try {
        sequence ??= this.#open([...idsOf(point), ...append]);
        const turn = await this.#sample(chat, sequence, idle ? append : [], wanted, true);
        const read = readTurn(chat, turn.text, tools);
        const before = point?.calls ?? 0;
        const written = withIds(read.calls, before);
        const calls = written.flatMap((one) => (one.kind === "call" ? [one.call] : []));
        const message = { role: "assistant", content: read.said } as const;
        const recorded = this.recorder.add(
          {
            asked: conversation.key,
            parent: point,
            ids: Int32Array.from([...append, ...turn.segment.ids]),
            opening: conversation.opening,
            closed: turn.stopToken && chat.closing.includes(turn.segment.ids.at(-1) as number),
            calls: before + written.length,
            rewritten: conversation.rewritten,
          },
          calls.length > 0 ? { ...message, tool_calls: calls } : message,
        );
        if (!turn.overshot) {
          this.seats.keep(recorded, sequence);
          sequence = undefined;
        }
        const kept = idle && point ? point.length - 1 : 0;
        const { segment, stop, stopToken, tokens } = turn;
        return { read, calls, segment, stop, stopToken, tokens, kept, point: recorded };
      } finally {
        sequence?.close();
      }
    });
  }

  /** Completes given tokens without recording. @throws ApiError (400) when they are too many or unknown */
  complete(prompt: readonly number[], wanted: Wanted): Promise<SampledTurn> {
    this.checkPrompt(prompt);
    return this.seats.run(wanted.signal, async () => {
      const sequence = this.#open(prompt);
      try {
        return await this.#sample(this.chat, sequence, [], wanted, false);
      } finally {
        // The KV stays until the slot is needed, so the next prompt with the same prefix reuses it.
        sequence.close();
      }
    });
  }

  /**
   * The log-probabilities of given tokens, of the second and all after it.
   *
   * @throws ApiError (400) when they are too many or unknown, or the engine scores none
   */
  scores(prompt: readonly number[], likeliest: number, signal: AbortSignal): Promise<readonly ScoredToken[]> {
    const { engine } = this;
    this.checkPrompt(prompt);
    const score = engine.scoreEach?.bind(engine);
    if (!score) throw unsupported("'echo' with 'logprobs': the engine scores no given tokens", "echo");
    return this.seats.run(signal, () => {
      this.seats.makeRoom();
      return score(Int32Array.from(prompt), { likeliest, signal });
    });
  }

  /** @throws ApiError (400) for what is no token */
  checkTokens(ids: readonly number[], field: string): void {
    const size = this.engine.info.vocabularySize;
    const unknown = ids.find((id) => id >= size);
    if (unknown === undefined) return;
    throw badRequest(`there is no token ${unknown}: the vocabulary has ${size}`, field, "invalid_value");
  }

  /** @throws ApiError (400) */
  checkPrompt(prompt: readonly number[]): void {
    this.checkTokens(prompt, "prompt");
    const room = this.engine.info.contextPerSequence;
    if (prompt.length >= room) throw tooLong(prompt.length, room, "prompt");
  }

  #open(ids: readonly number[]): Sequence {
    this.seats.makeRoom();
    return this.engine.open(Int32Array.from(ids));
  }

  #sample(
    chat: Chat,
    sequence: Sequence,
    append: readonly number[],
    wanted: Wanted,
    limitThoughts: boolean,
  ): Promise<SampledTurn> {
    const maxTokens = Math.min(wanted.maxTokens ?? Number.POSITIVE_INFINITY, this.engine.info.contextPerSequence);
    return sampleTurn(this.engine, chat, sequence, append, { ...wanted, maxTokens, limitThoughts });
  }

  close(): void {
    this.seats.closeAll();
  }
}
