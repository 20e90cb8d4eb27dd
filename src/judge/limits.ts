/**
 * How much may be asked at once and in a minute. Whoever asks waits its turn, first come first served; a server that
 * says "later" holds up everybody.
 */

export interface LimitSettings {
  /** Requests under way at once. */
  readonly concurrency: number;
  /** In any 60 seconds; undefined is no limit. */
  readonly requestsPerMinute: number | undefined;
  /** Prompt and completion tokens in any 60 seconds. A request is let in by an estimate, then counted as billed. */
  readonly tokensPerMinute: number | undefined;
}

/** Time, so that tests need not wait for it. Milliseconds. */
export interface Clock {
  now(): number;
  /** Rejects with the signal's reason when that is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
}

const MINUTE = 60_000;

export const realClock: Clock = {
  now: () => performance.now(),
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

/** One request that was let in. */
export interface Admission {
  /** What it really took of the tokens. */
  billed(tokens: number): void;
  /** It is over. Must be called once. */
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
  /** Wakes the first in the queue, when it waits for another request to leave. */
  #onLeave: (() => void) | undefined;

  constructor(settings: LimitSettings, clock: Clock = realClock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  /** Lets nobody in for so long. */
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
    // Whoever gives up does not hold up the next one.
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

  /** Resolves when a request leaves. Rejects with the signal's reason. */
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

  /** Milliseconds until it is worth looking again; 0 when neither a pause nor the last minute holds the request up. */
  #wait(tokens: number): number {
    const { requestsPerMinute = Infinity, tokensPerMinute = Infinity } = this.#settings;
    const now = this.#clock.now();
    if (now < this.#closedUntil) return this.#closedUntil - now;
    this.#recent = this.#recent.filter(({ at }) => now - at < MINUTE);
    const [oldest] = this.#recent;
    // A request larger than the whole limit is let in alone.
    if (!oldest) return 0;
    const used = this.#recent.reduce((sum, entry) => sum + entry.tokens, 0);
    if (this.#recent.length < requestsPerMinute && used + tokens <= tokensPerMinute) return 0;
    return oldest.at + MINUTE - now;
  }
}
