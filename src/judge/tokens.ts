/** How many tokens a text has, when no tokenizer is at hand. */

/** Bytes of UTF-8 in a token: fewer than in English prose (about 4), for JSON, ids and addresses take more tokens. */
const BYTES_PER_TOKEN = 3;

/** An estimate that is rather too high. */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
}
