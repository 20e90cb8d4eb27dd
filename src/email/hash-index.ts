/**
 * Finds earlier mails by a hash of their identifying fields: at most 16 bytes per mail, so a million mails need at most
 * 16 MB. A hash only nominates candidates; the caller compares the mails.
 */
import { hash } from "node:crypto";

const EMPTY = 0;

/** 32 bits of a text. Unpaired surrogates count as U+FFFD, which is what SQLite stores for them. */
export function hash32(text: string): number {
  return Number.parseInt(hash("sha1", text).slice(0, 8), 16);
}

/** A multimap from 32-bit hashes to whole numbers from 1 to 2³² − 1: open addressing, at most half full. */
export class HashIndex {
  #hashes = new Uint32Array(1 << 12);
  #values = new Uint32Array(1 << 12);
  #size = 0;

  /** The first value under this hash for which `isIt` returns true. */
  find(hash: number, isIt: (value: number) => boolean): number | undefined {
    const mask = this.#values.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const value = this.#values[slot] as number;
      if (value === EMPTY) return undefined;
      if (this.#hashes[slot] === hash && isIt(value)) return value;
    }
  }

  add(hash: number, value: number): void {
    if (this.#size * 2 >= this.#values.length) this.#grow();
    const mask = this.#values.length - 1;
    let slot = hash & mask;
    while (this.#values[slot] !== EMPTY) slot = (slot + 1) & mask;
    this.#hashes[slot] = hash;
    this.#values[slot] = value;
    this.#size++;
  }

  #grow(): void {
    const hashes = this.#hashes;
    const values = this.#values;
    this.#hashes = new Uint32Array(hashes.length * 2);
    this.#values = new Uint32Array(values.length * 2);
    this.#size = 0;
    values.forEach((value, slot) => {
      if (value !== EMPTY) this.add(hashes[slot] as number, value);
    });
  }
}
