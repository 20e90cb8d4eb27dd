/** Failures of the native engine, as errors that a user can act on. */
import { codeOf, HoneError, messageOf } from "../util/index.js";

/**
 * Memory was lacking, of the process or of the GPU: for the weights, an adapter, the KV, or what llama.cpp computes in.
 * When `wake` throws it the engine sleeps as before, and may wake with fewer sequences.
 */
export class EngineOutOfMemory extends HoneError {}

/** What the addon threw, or gave as a turn's failure. */
export function engineError(cause: unknown): HoneError {
  const message = messageOf(cause);
  if (codeOf(cause) !== "memory") return new HoneError(message, { cause });
  const hint = "fewer sequences (--concurrency) or shorter ones (--context) need less memory";
  return new EngineOutOfMemory(`${message}; ${hint}`, { cause });
}
