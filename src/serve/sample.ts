/** Samples one turn: streams its text, ends it at stop texts, and limits thoughts. */
import type { Engine, Grammar, SampledToken, Sampling, Sequence } from "../engine/index.js";
import { HoneError } from "../util/index.js";
import type { Segment } from "./recorder.js";

export interface SampleOptions {
  readonly maxTokens: number;
  readonly sampling: Sampling;
  /** Tokens that end the turn; a sampled one is not part of the text. */
  readonly stopIds: readonly number[];
  /** Texts that end the turn; they and anything after them are not part of the text. */
  readonly stopTexts: readonly string[];
  /** Number of likeliest tokens to report for each sampled one; undefined: none, and no log-probabilities. */
  readonly likeliest: number | undefined;
  readonly grammar?: Grammar | undefined;
  readonly signal: AbortSignal;
  /** Called with the text as it grows. It may later be shortened at a stop text. */
  readonly onText: ((text: string) => void) | undefined;
  /** Called with the seconds that the engine served others before it began. */
  readonly onWaited?: ((seconds: number) => void) | undefined;
  /** After this many tokens, append a text before sampling the rest, to end thoughts. Undefined: never. */
  readonly pause: { readonly after: number; ending(text: string): readonly number[] } | undefined;
}

export interface SampledTurn {
  /** Without the tokens given before the turn. */
  readonly segment: Segment;
  readonly text: string;
  /** "text": a stop text was found. */
  readonly stop: "token" | "text" | "length";
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

export async function sampleTurn(
  engine: Engine,
  sequence: Sequence,
  append: readonly number[],
  options: SampleOptions,
): Promise<SampledTurn> {
  const { stopIds, stopTexts, signal, onText, pause, likeliest } = options;
  const ids: number[] = [];
  const sampled: number[] = [];
  const logprobs: number[] = [];
  const tokens: SampledToken[] = [];
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const longest = Math.max(0, ...stopTexts.map((text) => text.length));
  const ended = new AbortController();
  let text = "";
  /** Number of tokens up to the end of a stop text. */
  let cut: number | undefined;
  let received = 0;

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
    if (stopIds.includes(token.token)) return;
    grow(token.token);
    onText?.(text);
  };
  const listens = onText !== undefined || stopTexts.length > 0 || likeliest !== undefined;

  const sample = async (given: readonly number[], maxTokens: number) => {
    const turn = await sequence.generate({
      append: Int32Array.from(given),
      maxTokens,
      sampling: options.sampling,
      stop: stopIds,
      // Without a listener nothing ends the turn early.
      signal: listens ? AbortSignal.any([signal, ended.signal]) : signal,
      ...(listens ? { onToken } : {}),
      ...(likeliest === undefined ? {} : { likeliest }),
      ...(options.grammar ? { grammar: options.grammar, before: [...ids] } : {}),
    });
    options.onWaited?.(turn.waitedSeconds);
    signal.throwIfAborted();
    if (turn.stop === "cancelled" && cut === undefined) throw new HoneError("the engine was closed");
    ids.push(...turn.tokens);
    for (const logprob of turn.logprobs) logprobs.push(logprob);
    for (let i = 0; i < turn.tokens.length; i++) sampled.push(1);
    return turn.stop;
  };

  let stop = await sample(append, Math.min(options.maxTokens, pause?.after ?? Number.POSITIVE_INFINITY));
  const left = options.maxTokens - ids.length;
  if (pause && stop === "length" && cut === undefined && left > 0) {
    const ending = pause.ending(engine.detokenize(ids, { special: true }));
    // If no room would be left after the ending, the thoughts stay open.
    const room = engine.info.contextPerSequence - sequence.length - ending.length;
    if (room > 0) {
      for (const id of ending) {
        ids.push(id);
        sampled.push(0);
        logprobs.push(0);
        received++;
        if (listens) grow(id);
      }
      stop = await sample(ending, left);
    }
  }
  const end = cut ?? ids.length;
  const overshot = end < ids.length;
  const kept = ids.slice(0, end);
  const stopped = stop === "stop" && cut === undefined;
  return {
    segment: {
      ids: Int32Array.from(kept),
      sampled: Uint8Array.from(sampled.slice(0, end)),
      logprobs: Float32Array.from(logprobs.slice(0, end)),
    },
    text: cut === undefined ? engine.detokenize(stopped ? kept.slice(0, -1) : kept, { special: true }) : text,
    stop: cut !== undefined ? "text" : stopped ? "token" : "length",
    tokens,
    overshot,
  };
}
