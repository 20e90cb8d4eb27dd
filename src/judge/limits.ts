/**
 * Limits on concurrent requests and on requests and tokens per minute. Requests wait in a queue, first in, first out; a
 * wait requested by the server holds up all of them.
 */

import { awakeTime } from "../util/index.js";

export interface LimitSettings {
  /** Concurrent requests. */
  readonly concurrency: number;
  /** In any 60 seconds; undefined is no limit. */
  readonly requestsPerMinute: number | undefined;
  /** Prompt and completion tokens in any 60 seconds. A request is admitted by an estimate, then counted as billed. */
  readonly tokensPerMinute: number | undefined;
}

/** A clock in milliseconds, replaced in tests. */
export interface Clock {
  now(): number;
  /** Rejects with the signal's reason when that is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
}

const MINUTE = 60_000;

export const realClock: Clock = {
  now: awakeTime,
  sleep: (milliseconds, signal) =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const abort = () => {
        clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = setTimeout(() => {
        signal.removeEventListener("abort", abort);
        resolve();
      }, milliseconds);
      signal.addEventListener("abort", abort, { once: true });
    }),
};

/** One admitted request. */
export interface Admission {
  /** Replaces the estimate with the tokens actually used. */
  billed(tokens: number): void;
  /** Ends the request. Must be called once. */
  leave(): void;
}

interface Entry {
  readonly at: number;
  tokens: number;
}

export class Limits {
  readonly #settings: LimitSettings;
  readonly #clock: Clock;
  /** Requests of the last minute, oldest first. */
  #recent: Entry[] = [];
  #active = 0;
  #closedUntil = 0;
  #queue: Promise<unknown> = Promise.resolve();
  /** Wakes the first of the queue, if it waits for a concurrent request to end. */
  #onLeave: (() => void) | undefined;

  constructor(settings: LimitSettings, clock: Clock = realClock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  /** Admits no request for this long. */
  pause(milliseconds: number): void {
    this.#closedUntil = Math.max(this.#closedUntil, this.#clock.now() + milliseconds);
  }

  /** Waits until a request of so many tokens may be sent. Rejects with the signal's reason. */
  async enter(tokens: number, signal: AbortSignal): Promise<Admission> {
    const turn = this.#queue.then(async () => {
      for (;;) {
        signal.throwIfAborted();
        const wait = this.#wait(tokens);
        if (wait <= 0) {
          if (this.#active < this.#settings.concurrency) break;
          await this.#leaving(signal);
        } else await this.#clock.sleep(wait, signal);
      }
      const entry = { at: this.#clock.now(), tokens };
      this.#recent.push(entry);
      this.#active++;
      return entry;
    });
    // A request that is cancelled must not hold up the next one.
    this.#queue = turn.catch(() => undefined);
    const entry = await turn;
    return {
      billed: (billed) => {
        entry.tokens = billed;
      },
      leave: () => {
        this.#active--;
        this.#onLeave?.();
      },
    };
  }

  /** Resolves when a request ends. Rejects with the signal's reason. */
  #leaving(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = () => reject(signal.reason);
      signal.addEventListener("abort", abort, { once: true });
      this.#onLeave = () => {
        this.#onLeave = undefined;
        signal.removeEventListener("abort", abort);
        resolve();
      };
    });
  }

  /** Milliseconds until the next check is worthwhile; 0 when neither a pause nor the last minute holds the request up. */
  #wait(tokens: number): number {
    const { requestsPerMinute = Infinity, tokensPerMinute = Infinity } = this.#settings;
    const now = this.#clock.now();
    if (now < this.#closedUntil) return this.#closedUntil - now;
    this.#recent = this.#recent.filter(({ at }) => now - at < MINUTE);
    const [oldest] = this.#recent;
    // A request larger than the whole limit is admitted alone.
    if (!oldest) return 0;
    const used = this.#recent.reduce((sum, entry) => sum + entry.tokens, 0);
    if (this.#recent.length < requestsPerMinute && used + tokens <= tokensPerMinute) return 0;
    return oldest.at + MINUTE - now;
  }
}
