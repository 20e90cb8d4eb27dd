/**
 * Where the messages of an mbox lie. A message begins behind a line `From <sender> <weekday> <month> <day> <time> ...`;
 * that line is the mail program's, never the message's. A line `From ...` of the text itself is written `>From ...`
 * (mboxrd: with one `>` more than it had).
 */

const FROM = Buffer.from("From ");
const LF = 10;
const LF_FROM = Buffer.from("\nFrom ");

/** Longest From line that is looked at. */
export const FROM_LINE_BYTES = 300;
const fromLine = /^From \S.* (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? .*\d{1,2}:\d{2}/;

/** Does a From line begin at `offset`? */
export function hasFromLine(bytes: Buffer, offset: number): boolean {
  if (bytes.compare(FROM, 0, FROM.length, offset, Math.min(offset + FROM.length, bytes.length)) !== 0) return false;
  const window = bytes.toString("latin1", offset, offset + FROM_LINE_BYTES);
  const end = window.indexOf("\n");
  return fromLine.test(end === -1 ? window : window.slice(0, end));
}

/** Where the second message begins; 0 when there is none. */
export function firstMboxBoundary(bytes: Buffer): number {
  for (let at = bytes.indexOf(LF_FROM); at !== -1; at = bytes.indexOf(LF_FROM, at + 1)) {
    if (hasFromLine(bytes, at + 1)) return at + 1;
  }
  return 0;
}

/** Where the last message begins; 0 when it is the only one. */
export function lastMboxBoundary(bytes: Buffer): number {
  for (let at = bytes.lastIndexOf(LF_FROM); at > 0; at = bytes.lastIndexOf(LF_FROM, at - 1)) {
    if (hasFromLine(bytes, at + 1)) return at + 1;
  }
  return 0;
}

/** The messages of a piece that begins with a From line, without their From lines and with `>From ` undone. */
export function* mboxMessages(bytes: Buffer): Generator<Buffer> {
  let start = 0;
  while (start < bytes.length) {
    const length = firstMboxBoundary(bytes.subarray(start));
    const next = length > 0 ? start + length : bytes.length;
    const lineEnd = bytes.indexOf(LF, start);
    if (lineEnd === -1 || lineEnd >= next) yield bytes.subarray(next, next);
    else yield unescaped(bytes.subarray(lineEnd + 1, next));
    start = next;
  }
}

function unescaped(message: Buffer): Buffer {
  if (!message.includes(">From ")) return message;
  return Buffer.from(message.toString("latin1").replace(/^>(>*From )/gm, "$1"), "latin1");
}
