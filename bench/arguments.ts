/** What a bench was given on its command line. */
import { messageOf, UsageError } from "../src/core/util/errors.js";

/**
 * @param read by `parseArgs`, whose messages go on after the first sentence
 * @param command that lists the options
 * @throws UsageError for options that there are not
 */
export function readArguments<T>(read: () => T, command: string): T {
  try {
    return read();
  } catch (error) {
    throw new UsageError(`${messageOf(error).split(".")[0]}; ${command} --help lists the options`);
  }
}
