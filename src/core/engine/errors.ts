/** Failures of the native engine, as errors that a user can act on. */
import { codeOf, HoneError, messageOf } from "../util/errors.js";
import { printable } from "../util/text.js";

/**
 * A lack of memory, in the process or on the GPU: for the weights, an adapter, the KV, or llama.cpp's compute buffers.
 * When `wake` throws it the engine still sleeps, and may wake with fewer sequences.
 */
export class EngineOutOfMemory extends HoneError {
  /** @param fewerHelp whether fewer sequences would need less: false where the weights alone do not fit */
  constructor(
    message: string,
    readonly fewerHelp: boolean = true,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The beginning of loadModel's message (native/engine/model.cc). */
const WEIGHTS = /cannot be loaded: /;

/** Converts an exception of the addon, or the failure of a turn. */
export function engineError(cause: unknown): HoneError {
  // llama.cpp ends some of its messages within the line, and quotes names from the file as they are.
  const message = printable(messageOf(cause).replace(/\s+/g, " "));
  if (codeOf(cause) !== "memory") return new HoneError(message, { cause });
  const fewerHelp = !WEIGHTS.test(message);
  const hint = fewerHelp
    ? "fewer sequences (--concurrency) or shorter ones (--context) need less memory"
    : "end other programs that hold memory there, or take a smaller model file";
  return new EngineOutOfMemory(`${message}; ${hint}`, fewerHelp, { cause });
}
