/** Reads what another machine sends, up to a length. */

/**
 * The text of a response; undefined when it is longer than `most` bytes, of which no more is read then. Compressed bytes
 * count as what they unpack to.
 */
export async function textWithin(response: Response, most: number): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  // Leaving the loop cancels the rest.
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > most) return undefined;
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}
