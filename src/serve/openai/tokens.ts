/** Estimates the number of tokens of a text without a tokenizer. */

/** Bytes of UTF-8 per token: fewer than in English prose (about 4), since JSON, ids and addresses take more tokens. */
const BYTES_PER_TOKEN = 3;

/** An estimate that is rather too high than too low. */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
}
