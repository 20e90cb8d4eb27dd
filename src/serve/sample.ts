/** One turn of the engine as it is sampled: its text as it grows, texts that end it, and thoughts that are ended. */
import type { Engine, SampledToken, Sampling, Sequence } from "../engine/index.js";
import { HoneError } from "../util/index.js";
import type { Segment } from "./recorder.js";

export interface SampleOptions {
  readonly maxTokens: number;
  readonly sampling: Sampling;
  /** Tokens that end the turn; the sampled one is no part of the text. */
  readonly stopIds: readonly number[];
  /** Texts that end the turn; they and what follows are no part of the text. */
  readonly stopTexts: readonly string[];
  /** So many likeliest tokens are wanted beside each sampled one; undefined: none, and no log-probabilities. */
  readonly likeliest: number | undefined;
  readonly signal: AbortSignal;
  /** Hears the text as it grows. It may yet turn out to end earlier, at a text that ends the turn. */
  readonly onText: ((text: string) => void) | undefined;
  /** Told how many seconds the engine served others before it began. */
  readonly onWaited?: ((seconds: number) => void) | undefined;
  /**
   * After so many tokens, what is to be appended before the rest is sampled: to end thoughts. Undefined: nothing.
   */
  readonly pause: { readonly after: number; ending(text: string): readonly number[] } | undefined;
}

export interface SampledTurn {
  /** Without what was given before the turn. */
  readonly segment: Segment;
  readonly text: string;
  /** "text": one of the texts that end it was found. */
  readonly stop: "token" | "text" | "length";
  /** With `likeliest`: of the tokens in `text` and the one that ended the turn. */
  readonly told: readonly SampledToken[];
  /** Whether the sequence has gone on beyond the turn: it can be used no more. */
  readonly overshot: boolean;
}

/** Where the first of the texts stands; -1: nowhere. */
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
  const told: SampledToken[] = [];
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const longest = Math.max(0, ...stopTexts.map((text) => text.length));
  const ended = new AbortController();
  let text = "";
  /** Tokens up to the end of a text that ends the turn. */
  let cut: number | undefined;
  let heard = 0;

  const grow = (token: number) => {
    const before = text.length;
    text += decoder.decode(engine.bytes([token], { special: true }), { stream: true });
    const at = firstOf(text, stopTexts, Math.max(0, before - longest));
    if (at < 0) return;
    text = text.slice(0, at);
    cut = heard;
    ended.abort();
  };
  const hear = (token: SampledToken) => {
    heard++;
    if (cut !== undefined) return;
    if (likeliest !== undefined) told.push(token);
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
      signal: AbortSignal.any([signal, ended.signal]),
      ...(listens ? { onToken: hear } : {}),
      ...(likeliest === undefined ? {} : { likeliest }),
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
    // Where no token could follow, the thoughts stay open.
    const room = engine.info.contextPerSequence - sequence.length - ending.length;
    if (room > 0) {
      for (const id of ending) {
        ids.push(id);
        sampled.push(0);
        logprobs.push(0);
        heard++;
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
    told,
    overshot,
  };
}
