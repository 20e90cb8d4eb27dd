/**
 * Admission of requests to the engine. A sequence takes one of the engine's slots for its KV; as many requests run at once
 * as there are slots, and the others wait in their order. Idle conversations keep their sequences and slots, so that
 * their KV is reused, until a running request needs the slot: then the longest idle sequence is closed.
 */
import type { Sequence } from "../core/engine/sequence.js";
import { queueFull } from "./errors.js";

export class Seats<Key> {
  readonly #capacity: number;
  readonly #mostWaiting: number;
  readonly #mostIdle: number;
  /** Each begins its request. */
  readonly #waiting = new Set<() => void>();
  /** Sequences of idle conversations, longest idle first. */
  readonly #idle = new Map<Key, Sequence>();
  #running = 0;

  /** @param mostIdle fewer than there are slots, where others share them */
  constructor(capacity: number, mostWaiting: number, mostIdle = capacity) {
    this.#capacity = capacity;
    this.#mostWaiting = mostWaiting;
    this.#mostIdle = mostIdle;
  }

  get counts(): { readonly running: number; readonly waiting: number; readonly idle: number } {
    return { running: this.#running, waiting: this.#waiting.size, idle: this.#idle.size };
  }

  /** Call before any of the requests waits. @throws ApiError (429) when the queue has no room for `count` requests */
  checkRoom(count: number): void {
    const free = this.#capacity - this.#running;
    if (this.#waiting.size + count - free > this.#mostWaiting) throw queueFull(this.#waiting.size);
  }

  /** Runs work that uses one sequence. @throws the signal's reason when it is aborted while waiting */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    // Requests are admitted in order.
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
      const begin = () => {
        signal.removeEventListener("abort", leave);
        this.#waiting.delete(begin);
        this.#running++;
        resolve();
      };
      const leave = () => {
        this.#waiting.delete(begin);
        reject(signal.reason);
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.add(begin);
    });
  }

  #next(): void {
    const [begin] = this.#waiting;
    if (this.#running < this.#capacity) begin?.();
  }

  /** Removes and returns the idle sequence of a key; the caller owns it. */
  take(key: Key): Sequence | undefined {
    const sequence = this.#idle.get(key);
    this.#idle.delete(key);
    return sequence;
  }

  /** Closes idle sequences until there is room for a new one. Call within `run`. */
  makeRoom(): void {
    for (const [key, sequence] of this.#idle) {
      if (this.#running + this.#idle.size <= this.#capacity) return;
      this.#idle.delete(key);
      sequence.close();
    }
  }

  /** Keeps the sequence of an idle conversation. */
  keep(key: Key, sequence: Sequence): void {
    this.#idle.set(key, sequence);
    for (const [oldest] of this.#idle) {
      if (this.#idle.size <= this.#mostIdle) return;
      this.close(oldest);
    }
  }

  close(key: Key): void {
    this.take(key)?.close();
  }

  closeAll(): void {
    for (const sequence of this.#idle.values()) sequence.close();
    this.#idle.clear();
  }
}
