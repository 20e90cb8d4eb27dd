/** Admits requests to a judge that sleeps between them: woken by the first, put to sleep when none is open. */

export interface Gated {
  /** Called before the first request after `sleep`; a failure refuses the requests that wait for it. */
  wake(): Promise<void>;
  /** Called when no request is open. */
  sleep(): Promise<void>;
  /** Called when the first request is admitted and when the last one has ended. */
  onBusy(busy: boolean): void;
}

export class JudgeGate {
  readonly #gated: Gated;
  #asleep = false;
  /** The change under way: waking or going to sleep. */
  #changing: Promise<void> = Promise.resolve();
  #open = 0;
  #emptied: (() => void) | undefined;

  constructor(gated: Gated) {
    this.#gated = gated;
  }

  /** @throws the error of `wake` */
  async during<T>(work: () => Promise<T>): Promise<T> {
    // After a sleep that was asked for before; requests that come meanwhile share one waking.
    const admitted = this.#changing.then(async () => {
      await this.#wake();
      if (++this.#open === 1) this.#gated.onBusy(true);
    });
    this.#changing = admitted.catch(() => undefined);
    await admitted;
    try {
      return await work();
    } finally {
      if (--this.#open === 0) {
        this.#gated.onBusy(false);
        this.#emptied?.();
      }
    }
  }

  async #wake(): Promise<void> {
    if (!this.#asleep) return;
    await this.#gated.wake();
    this.#asleep = false;
  }

  /** Waits for open requests. Requests after it wake the judge again. */
  sleep(): Promise<void> {
    const done = this.#changing.then(async () => {
      if (this.#asleep) return;
      if (this.#open > 0) await new Promise<void>((resolve) => (this.#emptied = resolve));
      this.#emptied = undefined;
      await this.#gated.sleep();
      this.#asleep = true;
    });
    this.#changing = done.catch(() => undefined);
    return done;
  }
}
