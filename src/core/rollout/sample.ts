/** Samples one turn of the assistant: limits its thoughts, ends it at stop texts, streams its text. */
import type { Engine } from "../engine/engine.js";
import type { Grammar, SampledToken, Sampling, Sequence } from "../engine/sequence.js";
import { HoneError } from "../util/errors.js";
import { anyOf } from "../util/signals.js";
import type { ConversationFormat } from "./conversation.js";
import { stopIds } from "./reading.js";
import type { TurnStop } from "./session.js";
import { splitThoughts } from "./thoughts.js";
import { type TokenRecord, Transcript } from "./transcript.js";

export interface SampleOptions {
  readonly maxTokens: number;
  readonly sampling: Sampling;
  /** As in `GenerateOptions`, of the whole turn. */
  readonly seconds?: number | undefined;
  /** Ends the turn as its own limit would. */
  readonly over?: AbortSignal | undefined;
  readonly signal: AbortSignal;
  /** Whether the chat's limit of thoughts holds: where it is reached, thoughts are ended by given tokens and the turn goes on. */
  readonly limitThoughts: boolean;
  /** Texts that end the turn; they and anything after them are not part of the text. Default: none. */
  readonly stopTexts?: readonly string[];
  /** Number of likeliest tokens to report for each sampled one; undefined: none, and no log-probabilities. */
  readonly likeliest?: number | undefined;
  readonly grammar?: Grammar | undefined;
  /** As in `GenerateOptions`. */
  readonly restricts?: boolean | undefined;
  /** Called with the text as it grows. It may later be shortened at a stop text. */
  readonly onText?: ((text: string) => void) | undefined;
  /** Called with seconds in which the engine served others, or evaluated tokens without sampling one. */
  readonly onWaited?: ((seconds: number) => void) | undefined;
}

export interface SampledTurn {
  /** Without the tokens given before the turn, and without what the engine says of it where tokens follow the turn. */
  readonly segment: TokenRecord;
  /** Without the token that ended the turn. */
  readonly text: string;
  /** "stop": a stop token or a stop text. */
  readonly stop: TurnStop;
  /** Whether the last token of the segment is a stop token. */
  readonly stopToken: boolean;
  /** With `likeliest`: the log-probabilities of the tokens in `text` and of the stop token. */
  readonly tokens: readonly SampledToken[];
  /** Whether tokens beyond the turn were evaluated; the sequence cannot be continued then. */
  readonly overshot: boolean;
}

/** Position of the first of the texts; -1 if there is none. */
function firstOf(text: string, wanted: readonly string[], from: number): number {
  const found = wanted.map((one) => text.indexOf(one, from)).filter((at) => at >= 0);
  return found.length > 0 ? Math.min(...found) : -1;
}

/**
 * A turn without any token has not begun: the tokens given before it may or may not be part of the sequence.
 *
 * @param append tokens given before the turn
 * @throws the signal's reason when it is aborted
 * @throws HoneError when the sequence was closed meanwhile
 */
export async function sampleTurn(
  engine: Engine,
  chat: ConversationFormat,
  sequence: Sequence,
  append: readonly number[],
  options: SampleOptions,
): Promise<SampledTurn> {
  const {
    maxTokens,
    sampling,
    seconds = Number.POSITIVE_INFINITY,
    over,
    signal,
    stopTexts = [],
    likeliest,
    grammar,
    restricts,
    onText,
    onWaited,
  } = options;
  const stopping = stopIds(chat, engine.info.endTokens);
  const transcript = new Transcript();
  const tokens: SampledToken[] = [];
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const longest = Math.max(0, ...stopTexts.map((text) => text.length));
  const ended = new AbortController();
  let text = "";
  /** Number of tokens up to the end of a stop text. */
  let cut: number | undefined;
  let received = 0;
  let left = seconds;

  const grow = (token: number) => {
    const before = text.length;
    text += decoder.decode(engine.bytes([token], { special: true }), { stream: true });
    const at = firstOf(text, stopTexts, Math.max(0, before - longest));
    if (at < 0) return;
    text = text.slice(0, at);
    cut = received;
    ended.abort();
  };
  const onToken = (token: SampledToken) => {
    received++;
    if (cut !== undefined) return;
    if (likeliest !== undefined) tokens.push(token);
    if (stopping.includes(token.token)) return;
    grow(token.token);
    onText?.(text);
  };
  const listens = onText !== undefined || stopTexts.length > 0 || likeliest !== undefined;

  /** @param ending given tokens that end the thoughts, where the turn goes on: what was sampled before stays */
  const sample = async (most: number, ending?: readonly number[]) => {
    const asked = performance.now();
    // Without a listener nothing else ends the turn early.
    using early = anyOf([signal, ...(over ? [over] : []), ...(listens ? [ended.signal] : [])]);
    const turn = await sequence.generate({
      append: Int32Array.from(ending ?? append),
      maxTokens: most,
      sampling,
      stop: stopping,
      seconds: left,
      signal: early.signal,
      ...(listens ? { onToken } : {}),
      ...(likeliest === undefined ? {} : { likeliest }),
      ...(grammar ? { grammar, restricts, before: [...transcript.record().ids, ...(ending ?? [])] } : {}),
    });
    const count = turn.tokens.length;
    left -= turn.usedSeconds;
    onWaited?.(count === 0 ? (performance.now() - asked) / 1000 : turn.waitedSeconds);
    signal.throwIfAborted();
    const cancelled = turn.stop === "cancelled" && cut === undefined;
    if (cancelled && !over?.aborted) throw new HoneError("the sequence was closed while it was in use");
    // Where there was no room or no time left, the thoughts stay open.
    if (ending && (count > 0 || cut !== undefined)) transcript.given(ending);
    transcript.generated(turn);
    return cancelled ? "deadline" : turn.stop;
  };

  const most = options.limitThoughts ? Math.min(maxTokens, chat.maxThinkingTokens ?? maxTokens) : maxTokens;
  let stop = await sample(most);
  if (stop === "length" && cut === undefined && most < maxTokens) {
    const { ids } = transcript.record();
    const { open } = splitThoughts(engine.detokenize(ids, { special: true }), chat.marks, chat.opened);
    const ending = open && chat.marks ? chat.template.encode(chat.marks.ending) : [];
    for (const id of ending) {
      received++;
      if (listens) grow(id);
    }
    stop = await sample(maxTokens - ids.length, ending);
  }
  const segment = transcript.record(cut);
  const { ids } = segment;
  const stopToken = stop === "stop" && cut === undefined;
  return {
    segment,
    text: cut === undefined ? engine.detokenize(stopToken ? ids.slice(0, -1) : ids, { special: true }) : text,
    // Only a stop text cancels a turn that is returned.
    stop: cut !== undefined || stop === "cancelled" ? "stop" : stop,
    stopToken,
    tokens,
    overshot: ids.length < transcript.length,
  };
}
