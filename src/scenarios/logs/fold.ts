/**
 * A text as it is read by who looks for data with a form in it: signs of full width, spaces and dashes of other kinds, and
 * percent-encoded signs are those of ASCII, and signs without a width are none.
 */

export interface Folded {
  readonly text: string;
  /** Where the sign at a position of `text`, or its end, is in the text that was given. */
  from(position: number): number;
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

export function folded(given: string): Folded {
  const parts: string[] = [];
  /** Positions from which on the two texts are apart by another number of signs, in the folded one and in the given one. */
  const [here, there] = [[0], [0]];
  let length = 0;
  let end = 0;
  for (const found of given.matchAll(OTHER)) {
    const [sign, encoded] = found;
    const read = plain(sign, encoded);
    parts.push(given.slice(end, found.index), read);
    length += found.index - end + read.length;
    end = found.index + sign.length;
    if (read.length === sign.length) continue;
    here.push(length);
    there.push(end);
  }
  if (parts.length === 0) return { text: given, from: (position) => position };
  const text = parts.join("") + given.slice(end);
  const from = (position: number) => {
    let [low, high] = [0, here.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((here[middle] as number) <= position) low = middle;
      else high = middle;
    }
    return (there[low] as number) + position - (here[low] as number);
  };
  return { text, from };
}
