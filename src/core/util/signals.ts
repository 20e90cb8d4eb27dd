/** Signals: what is heard of them, for how long, and several as one. */
import { setMaxListeners } from "node:events";

/**
 * Calls `heed` when the signal is aborted, at once where it is already; no more when what this returns is disposed of: lasting
 * signals keep no listeners.
 */
export function onAbort(signal: AbortSignal | undefined, heed: () => void): Disposable {
  if (signal?.aborted) heed();
  else signal?.addEventListener("abort", heed, { once: true });
  return { [Symbol.dispose]: () => signal?.removeEventListener("abort", heed) };
}

/** What the work gives. @throws the signal's reason where it is aborted before the work has ended */
export async function unlessAborted<T>(work: PromiseLike<T>, signal: AbortSignal | undefined): Promise<T> {
  let leave = () => {};
  const aborted = new Promise<never>((_, reject) => {
    leave = () => reject(signal?.reason);
  });
  using _leaving = onAbort(signal, leave);
  return await Promise.race([work, aborted]);
}

/**
 * A signal that is aborted with the first of these. `AbortSignal.any` takes as long as some turns of a small model's other code.
 *
 * @returns disposed of when it is no longer needed, as {@link onAbort}
 */
export function anyOf(signals: readonly AbortSignal[]): Disposable & { readonly signal: AbortSignal } {
  const all = new AbortController();
  // Each turn of many at a time listens to a lasting one, which is no leak.
  if (signals.length > 0) setMaxListeners(0, ...signals);
  const heard = signals.map((signal) => onAbort(signal, () => all.abort(signal.reason)));
  return { signal: all.signal, [Symbol.dispose]: () => heard.forEach((one) => void one[Symbol.dispose]()) };
}
