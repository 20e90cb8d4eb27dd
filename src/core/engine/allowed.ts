/** The tokens that could come at positions of a sequence, where a grammar let not all of them pass. */
import { deflateRawSync, inflateRawSync } from "node:zlib";

/** Plain data, a few kB for a turn: sets repeat. */
export interface AllowedTokens {
  /** Each once: a bit for each token of the vocabulary, the lowest of a byte first; deflated, in base64. */
  readonly sets: readonly string[];
  /** Positions whose token was drawn from a set, rising. */
  readonly at: readonly number[];
  /** Of each of these positions the number of its set. */
  readonly set: readonly number[];
}

export const packSet = (bits: Uint8Array): string => deflateRawSync(bits, { level: 1 }).toString("base64");

export const bitsOf = (set: string): Uint8Array => new Uint8Array(inflateRawSync(Buffer.from(set, "base64")));

export const isIn = (bits: Uint8Array, token: number): boolean => (((bits[token >> 3] ?? 0) >> (token & 7)) & 1) === 1;

/** Puts together what was allowed in the parts of a sequence. */
export class AllowedParts {
  readonly #numbers = new Map<string, number>();
  readonly #at: number[] = [];
  readonly #set: number[] = [];

  /**
   * Parts come in order.
   * @param from position of the part's first token
   */
  add(part: AllowedTokens | undefined, from: number): void {
    part?.at.forEach((at, i) => {
      const set = part.sets[part.set[i] as number] as string;
      const number = this.#numbers.get(set) ?? this.#numbers.size;
      this.#numbers.set(set, number);
      this.#at.push(from + at);
      this.#set.push(number);
    });
  }

  /** What was allowed before position `end`; undefined where every token could come everywhere. */
  before(end = Number.POSITIVE_INFINITY): AllowedTokens | undefined {
    const at = this.#at.filter((one) => one < end);
    if (at.length === 0) return undefined;
    const set = this.#set.slice(0, at.length);
    // Sets are numbered in the order in which they come.
    const count = set.reduce((most, number) => Math.max(most, number + 1), 0);
    return { sets: [...this.#numbers.keys()].slice(0, count), at, set };
  }
}
