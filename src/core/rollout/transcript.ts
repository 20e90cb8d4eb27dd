/**
 * The tokens of a turn, or of a whole trajectory: one append-only buffer that records for each token whether the policy sampled it and with
 * which log-probability. Training reads these tokens; text is never tokenised again.
 */

import { AllowedParts, type AllowedTokens } from "../engine/allowed.js";
import { afterTurn } from "../engine/evaluated.js";
import type { Evaluated, Generated } from "../engine/sequence.js";

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

export class Transcript {
  readonly #ids: number[] = [];
  readonly #sampled: number[] = [];
  readonly #logprobs: number[] = [];
  readonly #allowed = new AllowedParts();
  #evaluated: Evaluated | undefined;

  get length(): number {
    return this.#ids.length;
  }

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

  /** Appends what the engine has sampled in one call. Throws as {@link sampled}. */
  generated({ tokens, logprobs, allowed, evaluated }: Generated): void {
    this.#allowed.add(allowed, this.#ids.length);
    this.sampled(tokens, logprobs);
    if (tokens.length > 0) this.#evaluated = afterTurn(this.#evaluated, evaluated);
  }

  /** Appends the record of a turn. Throws as {@link sampled}. */
  add({ ids, sampled, logprobs, allowed, evaluated }: TokenRecord): void {
    this.#allowed.add(allowed, this.#ids.length);
    for (const [i, id] of ids.entries()) {
      if (sampled[i] === 1) this.sampled([id], [logprobs[i] as number]);
      else this.given([id]);
    }
    this.#evaluated = afterTurn(this.#evaluated, evaluated);
  }

  /** A copy of it, or of its first `end` tokens, without what the engine says of the whole sequence. */
  record(end?: number): TokenRecord {
    const allowed = this.#allowed.before(end);
    const evaluated = end === undefined ? this.#evaluated : undefined;
    return {
      ids: this.#ids.slice(0, end),
      sampled: this.#sampled.slice(0, end),
      logprobs: this.#logprobs.slice(0, end),
      ...(allowed ? { allowed } : {}),
      ...(evaluated ? { evaluated } : {}),
    };
  }
}
