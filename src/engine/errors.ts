/** Failures of the native engine, as errors that a user can act on. */
import { codeOf, HoneError, messageOf } from "../util/index.js";

/**
 * Memory was lacking, of the process or of the GPU: for the weights, an adapter, the KV, or what llama.cpp computes in.
 * When `wake` throws it the engine sleeps as before, and may wake with fewer sequences.
 */
export class EngineOutOfMemory extends HoneError {
  /** @param fewerHelp whether fewer sequences would need less: not where the weights alone do not fit */
  constructor(
    message: string,
    readonly fewerHelp: boolean = true,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** How `loadModel` (native/engine/model.cc) words its failure. */
const WEIGHTS = /cannot be loaded: /;

/** What the addon threw, or gave as a turn's failure. */
export function engineError(cause: unknown): HoneError {
  const message = messageOf(cause);
  if (codeOf(cause) !== "memory") return new HoneError(message, { cause });
  const fewerHelp = !WEIGHTS.test(message);
  const hint = fewerHelp
    ? "fewer sequences (--concurrency) or shorter ones (--context) need less memory"
    : "end other programs that hold memory there, or take a smaller model file";
  return new EngineOutOfMemory(`${message}; ${hint}`, fewerHelp, { cause });
}
