/** Tokenises texts that others have chosen: those that are too long are found out before they cost time and memory. */
import type { Engine } from "../core/engine/engine.js";
import { unlessAborted } from "../core/util/signals.js";

/** Texts up to this many characters, which take milliseconds, are tokenised on the calling thread. */
const SHORT = 1 << 15;
/** Tokens rarely have more characters: a beginning of the text tells whether there are too many. */
const USUAL = 16;

/**
 * Ids of a text; null where they are more than `most`. A promise for a long text.
 *
 * @throws the signal's reason
 */
export function tokenizeWithin(
  engine: Pick<Engine, "info" | "tokenize" | "tokenizeAside">,
  text: string,
  options: Options,
): Int32Array | null | Promise<Int32Array | null> {
  if (text.length > options.most * engine.info.longestToken) return null;
  return text.length <= SHORT ? within(engine.tokenize(text, options), options.most) : aside(engine, text, options);
}

interface Options {
  readonly special: boolean;
  /** Number of tokens. */
  readonly most: number;
  readonly signal?: AbortSignal | undefined;
}

async function aside(
  engine: Pick<Engine, "tokenizeAside">,
  text: string,
  options: Options,
): Promise<Int32Array | null> {
  const { most, signal } = options;
  // A cut changes the tokens beside it, hardly their number.
  for (let length = Math.max(SHORT, USUAL * most); length < text.length; length *= 4) {
    const ids = await unlessAborted(engine.tokenizeAside(text.slice(0, length), options), signal);
    if (ids.length > 2 * most) return null;
  }
  return within(await unlessAborted(engine.tokenizeAside(text, options), signal), most);
}

const within = (ids: Int32Array, most: number) => (ids.length > most ? null : ids);
