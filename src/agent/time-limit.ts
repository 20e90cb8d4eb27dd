/** A time limit for which time without any server of the engine does not count. */
import { type EngineOptions, noServer, outageOf } from "../engine/index.js";

/** Of an engine: milliseconds without any server so far, and whether there is none now. */
export interface Outage {
  milliseconds(): number;
  lasts(): boolean;
}

export const outageIn = (options: EngineOptions): Outage => ({
  milliseconds: () => outageOf(options),
  lasts: () => noServer(options),
});

/** Milliseconds between looks while there is no server: it is counted afterwards. */
const LOOK = 250;
const MOST_DELAY = 2 ** 31 - 1;

export class TimeLimit {
  readonly #over = new AbortController();
  readonly #outage: Outage;
  readonly #end: number;
  readonly #before: number;
  readonly #reason: () => Error;
  #timer: NodeJS.Timeout | undefined;

  /** @param reason of the signal when the time is over */
  constructor(seconds: number, outage: Outage, reason: () => Error) {
    this.#outage = outage;
    this.#reason = reason;
    this.#before = outage.milliseconds();
    this.#end = performance.now() + 1000 * seconds;
    this.#wait(1000 * seconds);
  }

  /** Aborted when the time is over. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** The work has ended: the signal is aborted no more. */
  clear(): void {
    clearTimeout(this.#timer);
  }

  #wait(milliseconds: number): void {
    this.#timer = setTimeout(() => this.#look(), Math.min(milliseconds, MOST_DELAY)).unref();
  }

  #look(): void {
    const left = this.#end + this.#outage.milliseconds() - this.#before - performance.now();
    if (left <= 0 && !this.#outage.lasts()) this.#over.abort(this.#reason());
    else this.#wait(Math.max(left, LOOK));
  }
}
