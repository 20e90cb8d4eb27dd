/**
 * Time limits that tell what is slow from what hangs. They go by a clock that stands still while this thread cannot run: the
 * process was stopped, the machine slept or gave its cores to others, or code of the thread itself blocked it. Whoever is waited for
 * had no time either then, or has answered and was not heard.
 */

/** Milliseconds between looks at the clock, and the delay of a look from which on the time before it does not count. */
const LOOK_MS = 500;
const LATE_MS = 1000;
const ROUNDING_MS = 1e-6;

let counted = 0;
let looked = performance.now();
let looking: NodeJS.Timeout | undefined;

/** Milliseconds that this thread has been able to run, since some time. */
export function awakeTime(): number {
  if (!looking) looking = setInterval(awakeTime, LOOK_MS).unref();
  const now = performance.now();
  const passed = now - looked;
  looked = now;
  counted += passed > LOOK_MS + LATE_MS ? LOOK_MS : passed;
  return counted;
}

/** Time that counts for no limit, such as that without any server of an engine. */
export interface Pauses {
  /** Milliseconds so far, as they are counted afterwards. */
  milliseconds(): number;
  /** Whether there is one now. */
  lasts(): boolean;
}

/** The time of work that may end by itself: for limits of other things it is a pause. */
export class Uncounted implements Pauses {
  #running = 0;
  #since = 0;
  #before = 0;

  milliseconds(): number {
    return this.#before + (this.#running > 0 ? awakeTime() - this.#since : 0);
  }

  lasts(): boolean {
    return this.#running > 0;
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running++ === 0) this.#since = awakeTime();
    try {
      return await work();
    } finally {
      if (this.#running === 1) this.#before += awakeTime() - this.#since;
      this.#running--;
    }
  }
}

export class TimeLimit {
  readonly #over = new AbortController();
  readonly #reason: () => unknown;
  readonly #pauses: Pauses | undefined;
  readonly #milliseconds: number;
  #end = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param reason of the signal when the time is over */
  constructor(seconds: number, reason: () => unknown, pauses?: Pauses) {
    this.#milliseconds = 1000 * seconds;
    this.#reason = reason;
    this.#pauses = pauses;
    this.renew();
  }

  /** Aborted when the time is over. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** There was a sign of progress: the time begins anew. */
  renew(): void {
    this.#end = this.#now() + this.#milliseconds;
    this.#wait(this.#milliseconds);
  }

  /** The work has ended: the signal is aborted no more. */
  clear(): void {
    clearTimeout(this.#timer);
  }

  [Symbol.dispose](): void {
    this.clear();
  }

  #now(): number {
    return awakeTime() - (this.#pauses?.milliseconds() ?? 0);
  }

  #wait(milliseconds: number): void {
    clearTimeout(this.#timer);
    // Does not keep the process alive, which is how work is found that waits for nothing.
    this.#timer = setTimeout(() => this.#look(), Math.min(milliseconds, LOOK_MS)).unref();
  }

  #look(): void {
    const left = this.#end - this.#now();
    // The clock is a sum, which is rounded.
    if (left <= ROUNDING_MS && !this.#pauses?.lasts()) this.#over.abort(this.#reason());
    else this.#wait(Math.max(left, 1));
  }
}
