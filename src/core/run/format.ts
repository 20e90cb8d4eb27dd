/**
 * The format of what a run keeps: its tables, the names and meanings of recorded options, metrics and rollouts, and the files of
 * its checkpoints. Whoever changes one of them raises the number; other formats are refused, never translated.
 */
import { HoneError } from "../util/errors.js";
import { shellWord } from "../util/text.js";

export const FORMAT = 13;

/**
 * @param what the file, for the message
 * @param adapter where an adapter of it lies, which every format has in PEFT's
 * @throws HoneError when the format is another one
 */
export function requireFormat(format: unknown, what: string, adapter: string): void {
  if (format === FORMAT) return;
  throw new HoneError(
    `${what} has format ${format}, and this hone reads format ${FORMAT} only: begin another run with --run NAME, from its adapter with --fork ${shellWord(adapter)}, or use the hone that made it`,
  );
}
