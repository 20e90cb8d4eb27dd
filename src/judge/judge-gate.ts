/** Admits requests to a judge that sleeps between them: woken by the first, put to sleep when none is open. */

export interface Gated {
  /** Called before the first request after `sleep`; a failure refuses the requests that wait for it. */
  wake(): Promise<void>;
  /** Called when no request is open. */
  sleep(): Promise<void>;
  /** Called when the first request is admitted and when the last one has ended. */
  onBusy(busy: boolean): void;
}

export function judgeGate(gated: Gated) {
  let asleep = false;
  /** The change under way: waking or going to sleep. */
  let changing: Promise<void> = Promise.resolve();
  let open = 0;
  let emptied: (() => void) | undefined;
  return {
    /**
     * Runs a request on the judge, which is woken for it.
     * @throws the error of `wake`
     */
    during: async <T>(work: () => Promise<T>): Promise<T> => {
      // After a sleep that was asked for before; requests that come meanwhile share one waking.
      const admitted = changing.then(async () => {
        if (asleep) await gated.wake();
        asleep = false;
        if (++open === 1) gated.onBusy(true);
      });
      changing = admitted.catch(() => undefined);
      await admitted;
      try {
        return await work();
      } finally {
        if (--open === 0) {
          gated.onBusy(false);
          emptied?.();
        }
      }
    },
    /** Waits for open requests. Requests after it wake the judge again. */
    sleep: (): Promise<void> => {
      const done = changing.then(async () => {
        if (asleep) return;
        if (open > 0) await new Promise<void>((resolve) => (emptied = resolve));
        emptied = undefined;
        await gated.sleep();
        asleep = true;
      });
      changing = done.catch(() => undefined);
      return done;
    },
  };
}
