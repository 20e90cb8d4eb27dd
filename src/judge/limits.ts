/**
 * Limits concurrent requests. They wait in a queue, first in, first out; a wait requested by the server, as one that limits
 * requests or tokens in a minute does, holds up all of them.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { unlessAborted } from "../core/util/signals.js";
import { awakeTime } from "../core/util/time-limit.js";

export interface LimitSettings {
  /** Concurrent requests. */
  readonly concurrency: number;
}

/** A clock in milliseconds, replaced in tests. */
export interface Clock {
  now(): number;
  /** Rejects with the signal's reason when that is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
}

export const realClock: Clock = {
  now: awakeTime,
  sleep: (milliseconds, signal) =>
    sleep(milliseconds, undefined, { signal }).catch(() => {
      throw signal.reason;
    }),
};

export class Limits {
  readonly #settings: LimitSettings;
  readonly #clock: Clock;
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

  /**
   * Waits until a request may be sent. Rejects with the signal's reason.
   * @returns ends the request; must be called once
   */
  async enter(signal: AbortSignal): Promise<() => void> {
    const turn = this.#queue.then(async () => {
      for (;;) {
        signal.throwIfAborted();
        const wait = this.#closedUntil - this.#clock.now();
        if (wait > 0) await this.#clock.sleep(wait, signal);
        else if (this.#active < this.#settings.concurrency) break;
        else await unlessAborted(new Promise<void>((resolve) => (this.#onLeave = resolve)), signal);
      }
      this.#active++;
    });
    // A request that is cancelled must not hold up the next one.
    this.#queue = turn.catch(() => undefined);
    await turn;
    return () => {
      this.#active--;
      this.#onLeave?.();
    };
  }
}
