/** Signals that are aborted together. */
import { setMaxListeners } from "node:events";

/**
 * A signal that is aborted with the first of these. `AbortSignal.any` takes as long as some turns of a small model's other code.
 *
 * @returns disposed of when it is no longer needed: lasting signals keep no listeners
 */
export function anyOf(signals: readonly AbortSignal[]): Disposable & { readonly signal: AbortSignal } {
  const all = new AbortController();
  // Each turn of many at a time listens to a lasting one, which is no leak.
  if (signals.length > 0) setMaxListeners(0, ...signals);
  const listeners = signals.map((signal) => {
    const abort = () => all.abort(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    return () => signal.removeEventListener("abort", abort);
  });
  return { signal: all.signal, [Symbol.dispose]: () => listeners.forEach((remove) => void remove()) };
}
