/**
 * Who may use the engine now. A sequence takes one of the engine's slots for its KV; so many requests run at once as
 * there are slots, and the others wait in their order. The sequences of conversations that rest keep their slots, so
 * that they go on where they were, until a running one needs the room: then the one that has rested longest is closed.
 */
import type { Sequence } from "../engine/index.js";
import { queueFull } from "./errors.js";

interface Waiter {
  begin(): void;
}

export class Seats<Key> {
  readonly #capacity: number;
  readonly #mostWaiting: number;
  readonly #mostResting: number;
  readonly #waiting = new Set<Waiter>();
  /** Sequences that rest, the one that has rested longest first. */
  readonly #resting = new Map<Key, Sequence>();
  #running = 0;

  /** @param mostResting fewer than there are slots, where others share them */
  constructor(capacity: number, mostWaiting: number, mostResting = capacity) {
    this.#capacity = capacity;
    this.#mostWaiting = mostWaiting;
    this.#mostResting = mostResting;
  }

  get counts(): { readonly running: number; readonly waiting: number; readonly resting: number } {
    return { running: this.#running, waiting: this.#waiting.size, resting: this.#resting.size };
  }

  /** @throws ApiError (429) when so many could not wait: to be asked before any of them does */
  checkRoom(count: number): void {
    const free = this.#capacity - this.#running;
    if (this.#waiting.size + count - free > this.#mostWaiting) throw queueFull(this.#waiting.size);
  }

  /** Runs work that uses one sequence. @throws the signal's reason when it is aborted while waiting */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    // Who comes while others wait does so behind them.
    if (this.#running >= this.#capacity || this.#waiting.size > 0) await this.#turn(signal);
    else this.#running++;
    try {
      signal.throwIfAborted();
      return await work();
    } finally {
      this.#running--;
      this.#next();
    }
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        begin: () => {
          signal.removeEventListener("abort", leave);
          this.#waiting.delete(waiter);
          this.#running++;
          resolve();
        },
      };
      const leave = () => {
        this.#waiting.delete(waiter);
        reject(signal.reason);
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.add(waiter);
    });
  }

  #next(): void {
    const [first] = this.#waiting;
    if (first && this.#running < this.#capacity) first.begin();
  }

  /** The sequence that rests under that name, which is the caller's from now on. */
  take(key: Key): Sequence | undefined {
    const sequence = this.#resting.get(key);
    this.#resting.delete(key);
    return sequence;
  }

  /** Closes sequences that rest until a new one has room. Within `run`. */
  makeRoom(): void {
    for (const [key, sequence] of this.#resting) {
      if (this.#running + this.#resting.size <= this.#capacity) return;
      this.#resting.delete(key);
      sequence.close();
    }
  }

  /** Lets a sequence rest until it goes on. */
  rest(key: Key, sequence: Sequence): void {
    this.#resting.set(key, sequence);
    for (const [oldest] of this.#resting) {
      if (this.#resting.size <= this.#mostResting) return;
      this.close(oldest);
    }
  }

  close(key: Key): void {
    this.take(key)?.close();
  }

  closeAll(): void {
    for (const sequence of this.#resting.values()) sequence.close();
    this.#resting.clear();
  }
}
