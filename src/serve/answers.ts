/** Parts of the answers that both routes share. */
import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import type { Engine } from "../core/engine/engine.js";
import type { Sampling } from "../core/engine/sequence.js";
import type { SampledTurn } from "../core/rollout/sample.js";
import { anyOf } from "../core/util/signals.js";
import { tokenizeWithin } from "../engine/tokenize-within.js";
import { tooLong } from "./errors.js";
import { type Answer, type ServedModel, seedOf } from "./model.js";
import type { Asked } from "./requests.js";

export const nowSeconds = () => Math.floor(Date.now() / 1000);
export const newAnswerId = (prefix: string) => `${prefix}-${randomUUID().replaceAll("-", "")}`;

export const usageOf = (prompt: number, completion: number, cached: number) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  prompt_tokens_details: { cached_tokens: cached },
});

export type Usage = ReturnType<typeof usageOf>;

export const stopTextsOf = ({ stop }: Asked): readonly string[] =>
  stop == null ? [] : typeof stop === "string" ? [stop] : stop;

/** Sampling options of completion `index` of a request. */
export function samplingOf(asked: Asked, seed: number, index: number): Sampling {
  return {
    temperature: asked.temperature ?? 1,
    topK: Math.max(0, asked.top_k ?? 0),
    topP: asked.top_p ?? 1,
    minP: asked.min_p ?? 0,
    seed: seedOf(seed, index),
  };
}

/** Runs all completions of a request; when one fails, the others are aborted. */
export async function allOf<T>(
  count: number,
  model: ServedModel,
  signal: AbortSignal,
  one: (index: number, signal: AbortSignal) => Promise<T>,
): Promise<T[]> {
  model.seats.checkRoom(count);
  if (count === 1) return [await one(0, signal)];
  const failed = new AbortController();
  using together = anyOf([signal, failed.signal]);
  // Each completion adds a listener, and so does each of its turns.
  setMaxListeners(0, together.signal);
  const all = Array.from({ length: count }, (_, index) =>
    one(index, together.signal).catch((error: unknown) => {
      failed.abort(error);
      throw error;
    }),
  );
  const settled = await Promise.allSettled(all);
  together.signal.throwIfAborted();
  return settled.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
}

/** A token as shown in answers. */
export function shown(engine: Engine, token: number): { readonly token: string; readonly bytes: number[] } {
  return { token: engine.detokenize([token], { special: true }), bytes: [...engine.bytes([token], { special: true })] };
}

/** The log-probabilities of the tokens that are part of the text, without the stop token. */
export const logprobsOfText = ({ tokens, stopToken }: Pick<SampledTurn, "tokens" | "stopToken">) =>
  stopToken ? tokens.slice(0, -1) : tokens;

/** A text's tokens, behind the model's BOS token where it has one. @throws ApiError (400) where they do not fit the context */
export async function promptIdsOf({ engine }: ServedModel, text: string, signal: AbortSignal): Promise<number[]> {
  const { contextPerSequence: most, special, addsBos } = engine.info;
  const found = await tokenizeWithin(engine, text, { special: true, most, signal });
  if (found === null) throw tooLong(undefined, most, "prompt");
  return addsBos && special.bos !== null && found[0] !== special.bos ? [special.bos, ...found] : [...found];
}

/** Number of an answer's sampled tokens that write its thoughts, marks included. */
export function thoughtTokens({ engine }: ServedModel, { read: { thoughts }, segment: { ids } }: Answer): number {
  const bytes = Buffer.byteLength(thoughts);
  let count = 0;
  for (let written = 0; written < bytes && count < ids.length; count++) {
    written += engine.bytes([ids[count] as number], { special: true }).length;
  }
  return count;
}
