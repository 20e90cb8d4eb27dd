/** Where the text of a file begins, its line ends, and what lines of JSON hold. */

export const LF = 10;
export const CR = 13;

/** Bytes that show the line ends of a text. */
const SHOWN = 4096;

/** Position after a byte order mark and blank lines. */
export function textStart(bytes: Buffer): number {
  let start = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  while (bytes[start] === LF || bytes[start] === CR) start++;
  return start;
}

/** Whether most lines end with CR alone, as on the Macintosh before 2001. */
export function endsWithCr(bytes: Buffer): boolean {
  const first = bytes.indexOf(CR);
  // Nearly all mail, and quickly.
  if (first === -1 || bytes[first + 1] === LF) return false;
  let balance = 0;
  for (const [index, byte] of bytes.subarray(0, SHOWN).entries()) {
    if (byte === LF) balance--;
    // CR CR LF is a line end that a transfer has changed.
    else if (byte === CR && bytes[index + 1] !== LF && bytes[index + 1] !== CR) balance++;
  }
  return balance > 0;
}

/** Makes each CR alone a LF, in place. */
export function crToLf(bytes: Buffer): void {
  for (let at = bytes.indexOf(CR); at !== -1; at = bytes.indexOf(CR, at + 1)) if (bytes[at + 1] !== LF) bytes[at] = LF;
}

/** The values of lines of JSON, without blank ones; undefined for a line that is none, which is counted as a bad row. */
export function* jsonRows(bytes: Buffer): Generator<unknown> {
  for (const line of bytes.subarray(textStart(bytes)).toString("utf8").split("\n")) {
    if (line.trim() === "") continue;
    let row: unknown;
    try {
      row = JSON.parse(line);
    } catch {
      // `row` stays undefined.
    }
    yield row;
  }
}
