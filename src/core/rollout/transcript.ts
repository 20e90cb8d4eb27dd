/**
 * The tokens of one trajectory: one append-only buffer that records for each token whether the policy sampled it and with
 * which log-probability. Training reads these tokens; text is never tokenised again.
 */

import { AllowedParts, type AllowedTokens } from "../engine/allowed.js";
import type { Evaluated } from "../engine/sequence.js";

export interface TokenRecord {
  /** Token ids, in order. */
  ids: number[];
  /** 1 where the policy sampled the token, else 0 (prompt, template, tool results). Same length as `ids`. */
  sampled: number[];
  /** Natural-log probability under the distribution the token was sampled from; 0 where `sampled` is 0. */
  logprobs: number[];
  /** Where a grammar restricted what could be sampled, in positions of `ids`. */
  allowed?: AllowedTokens;
  /** What the engine says of the sequence after its last turn; a closing token may follow here. */
  evaluated?: Evaluated;
}

/** Consecutive tokens of a conversation. */
export interface Segment {
  readonly ids: Int32Array;
  /** 1 where the model sampled the token. */
  readonly sampled: Uint8Array;
  /** 0 for given tokens. */
  readonly logprobs: Float32Array;
  /** Where a grammar restricted what could be sampled. */
  readonly allowed?: AllowedTokens | undefined;
}

export class Transcript {
  readonly #ids: number[] = [];
  readonly #sampled: number[] = [];
  readonly #logprobs: number[] = [];
  readonly #allowed = new AllowedParts();

  /** Number of tokens that were given, not sampled. */
  get givenCount(): number {
    return this.#sampled.reduce((count, sampled) => count + 1 - sampled, 0);
  }

  /** Appends tokens given to the policy. */
  given(ids: Iterable<number>): void {
    for (const id of ids) {
      this.#ids.push(id);
      this.#sampled.push(0);
      this.#logprobs.push(0);
    }
  }

  /**
   * Appends tokens that the policy sampled, including a stop token.
   *
   * @param logprobs one finite number ≤ 0 for each id
   * @throws RangeError when the lengths differ or a log-probability is invalid
   */
  sampled(ids: ArrayLike<number>, logprobs: ArrayLike<number>): void {
    if (ids.length !== logprobs.length) {
      throw new RangeError(`${ids.length} sampled tokens came with ${logprobs.length} log-probabilities`);
    }
    for (let i = 0; i < ids.length; i++) {
      const logprob = logprobs[i] as number;
      // Rounding may lift the log-probability of a certain token slightly above 0.
      if (!(logprob <= 1e-3 && logprob > -Infinity))
        throw new RangeError(`token ${i} has the log-probability ${logprob}`);
      this.#ids.push(ids[i] as number);
      this.#sampled.push(1);
      this.#logprobs.push(Math.min(logprob, 0));
    }
  }

  /** Appends given and sampled tokens. Throws as {@link sampled}. */
  add({ ids, sampled, logprobs, allowed }: Segment): void {
    this.#allowed.add(allowed, this.#ids.length);
    for (let from = 0; from < ids.length; ) {
      let to = from + 1;
      while (to < ids.length && sampled[to] === sampled[from]) to++;
      if (sampled[from]) this.sampled(ids.subarray(from, to), logprobs.subarray(from, to));
      else this.given(ids.subarray(from, to));
      from = to;
    }
  }

  /** A copy for the trajectory. */
  record(): TokenRecord {
    const allowed = this.#allowed.whole();
    return {
      ids: [...this.#ids],
      sampled: [...this.#sampled],
      logprobs: [...this.#logprobs],
      ...(allowed ? { allowed } : {}),
    };
  }
}
