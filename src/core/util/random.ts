/**
 * Seeded randomness. Nothing in hone is random without a seed, and every seed is derived from the names of its use
 * (run, step, scenario, index), so that any part can be repeated alone.
 */
import { createHash } from "node:crypto";

/** A 53-bit seed that depends on every part and on their order. Parts are separated: ("ab","c") ≠ ("a","bc"). */
export function deriveSeed(...parts: (string | number)[]): number {
  const digest = createHash("sha256").update(JSON.stringify(parts)).digest();
  return Number(digest.readBigUInt64LE(0) >> 11n);
}

/** Items in an order drawn by the seed that more of them do not change: of any two names the same comes first. */
export function drawn<T>(items: Iterable<T>, nameOf: (item: T) => string, ...seed: (string | number)[]): T[] {
  return [...items]
    .map((item) => ({ item, name: nameOf(item) }))
    .map((one) => ({ ...one, draw: deriveSeed(...seed, one.name) }))
    .sort((a, b) => a.draw - b.draw || (a.name < b.name ? -1 : 1))
    .map(({ item }) => item);
}

/** A small, fast, seeded generator (xoshiro128**, Blackman & Vigna 2018), seeded through SHA-256. */
export class Random {
  readonly #state: Uint32Array;

  constructor(...seed: (string | number)[]) {
    const digest = createHash("sha256").update(JSON.stringify(seed)).digest();
    this.#state = new Uint32Array([0, 4, 8, 12].map((offset) => digest.readUInt32LE(offset)));
  }

  /** A whole number in [0, 2³²). */
  uint32(): number {
    const s = this.#state as Uint32Array & [number, number, number, number];
    const scaled = Math.imul(s[1], 5);
    const result = Math.imul((scaled << 7) | (scaled >>> 25), 9) >>> 0;
    const t = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 11) | (s[3] >>> 21);
    return result;
  }

  /** A number in [0, 1). */
  float(): number {
    return this.uint32() / 2 ** 32;
  }

  /** True with the given probability. */
  chance(probability: number): boolean {
    return this.float() < probability;
  }

  /** A whole number in [low, high], both included. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.float() * (high - low + 1));
  }

  /** One item. Throws RangeError when there is none. */
  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new RangeError("Random.pick: nothing to pick from");
    return items[this.integer(0, items.length - 1)] as T;
  }

  /** One item, with probability proportional to its weight. */
  weighted<T>(items: readonly (readonly [item: T, weight: number])[]): T {
    const total = items.reduce((sum, [, weight]) => sum + weight, 0);
    let left = this.float() * total;
    for (const [item, weight] of items) {
      left -= weight;
      if (left < 0) return item;
    }
    const last = items.at(-1);
    if (!last) throw new RangeError("Random.weighted: nothing to pick from");
    return last[0];
  }

  /** A shuffled copy (Fisher–Yates). */
  shuffle<T>(items: readonly T[]): T[] {
    const copy = [...items];
    for (let i = copy.length - 1; i > 0; i--) {
      const j = this.integer(0, i);
      [copy[i], copy[j]] = [copy[j] as T, copy[i] as T];
    }
    return copy;
  }

  /** `count` different items in random order. */
  sample<T>(items: readonly T[], count: number): T[] {
    return this.shuffle(items).slice(0, count);
  }
}
