/** What an engine says of a turn beside its tokens (`Evaluated` in sequence.ts). */
import type { DrawStatistics, Evaluated } from "./sequence.js";

/**
 * A digest of token ids, by which records of one sequence are compared: FNV-1a (Fowler, Noll and Vo) with each id as one unit of
 * 32 bits. The addon has the same (`digestOf` in native/engine/slots.cc).
 */
export function digestOf(ids: ArrayLike<number>): number {
  let digest = 2166136261;
  for (let i = 0; i < ids.length; i++) digest = Math.imul(digest ^ (ids[i] as number), 16777619);
  return digest >>> 0;
}

/** The same of the bits of log-probabilities in f32, as they are recorded: at most 0, which has no sign. */
export const digestOfLogprobs = (logprobs: ArrayLike<number>): number =>
  digestOf(new Int32Array(Float32Array.from(logprobs, (value) => Math.min(value, 0) + 0).buffer));

/** Of the draws of both. */
export function addDraws(one: DrawStatistics, other: DrawStatistics | undefined): DrawStatistics {
  if (!other) return one;
  return {
    tokens: one.tokens + other.tokens,
    deviation: one.deviation + other.deviation,
    variance: one.variance + other.variance,
  };
}

/** As the latest says, with what the turns before it drew. */
export const afterTurn = (before: Evaluated | undefined, latest: Evaluated | undefined): Evaluated | undefined =>
  latest && {
    ...latest,
    foreign: latest.foreign || before?.foreign === true,
    drawn: [...(before?.drawn ?? []), ...latest.drawn],
    ...(latest.draws ? { draws: addDraws(latest.draws, before?.draws) } : {}),
  };
