/**
 * A text as it is read by who looks for data with a form in it: signs of full width, spaces and dashes of other kinds, and
 * percent-encoded signs are those of ASCII, and signs without a width are none.
 */

/** A stretch of a text, and what stands there in another one. */
export interface Piece {
  readonly first: number;
  readonly after: number;
  readonly by: string;
}

/** @param pieces in the order of the text, none across another */
export function replaced(text: string, pieces: readonly Piece[]): string {
  const parts: string[] = [];
  let end = 0;
  for (const { first, after, by } of pieces) {
    parts.push(text.slice(end, first), by);
    end = after;
  }
  return parts.join("") + text.slice(end);
}

/** `%2540` is what `%40` becomes when it is encoded once more. */
const OTHER =
  /%(?:25)*([2-7][0-9a-f])|[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]|[\u00ad\u200b-\u200d\u2060\ufeff]|[\u2010-\u2015\u2212\ufe58\ufe63]|[\uff01-\uff5e]/giu;

function plain(sign: string, encoded: string | undefined): string {
  if (encoded !== undefined) return String.fromCharCode(Number.parseInt(encoded, 16));
  const code = sign.charCodeAt(0);
  if (code >= 0xff01 && code <= 0xff5e) return String.fromCharCode(code - 0xfee0);
  if (/\s/.test(sign)) return " ";
  return /[\u00ad\u200b-\u200d\u2060\ufeff]/.test(sign) ? "" : "-";
}

/** @returns the text, and where the sign at a position of it, or its end, is in the text that was given */
export function folded(given: string): { readonly text: string; from(position: number): number } {
  const pieces = [...given.matchAll(OTHER)].map(
    ({ index, 0: sign, 1: encoded }): Piece => ({ first: index, after: index + sign.length, by: plain(sign, encoded) }),
  );
  if (pieces.length === 0) return { text: given, from: (position) => position };
  const origins: number[] = [];
  let end = 0;
  for (const { first, after, by } of pieces) {
    for (; end < first; end++) origins.push(end);
    if (by !== "") origins.push(first);
    end = after;
  }
  for (; end <= given.length; end++) origins.push(end);
  return { text: replaced(given, pieces), from: (position) => origins[position] as number };
}
