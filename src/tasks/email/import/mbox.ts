/**
 * Finds the messages of an mbox. A message begins after a line `From <sender> <weekday> <month> <day> <time> ...`,
 * which the mail program adds. A line `From ...` of the text itself is written `>From ...` (mboxrd: with one more `>`).
 */

const FROM = Buffer.from("From ");
const LF = 10;
const LF_FROM = Buffer.from("\nFrom ");

/** Maximum length of a From line. */
export const FROM_LINE_BYTES = 300;
const fromLine = /^From \S.* (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? .*\d{1,2}:\d{2}/;

/** Whether a From line begins at `offset`. */
export function hasFromLine(bytes: Buffer, offset: number): boolean {
  if (bytes.compare(FROM, 0, FROM.length, offset, Math.min(offset + FROM.length, bytes.length)) !== 0) return false;
  const window = bytes.toString("latin1", offset, offset + FROM_LINE_BYTES);
  const end = window.indexOf("\n");
  return fromLine.test(end === -1 ? window : window.slice(0, end));
}

/** Position of the second message; 0 if there is none. */
export function firstMboxBoundary(bytes: Buffer): number {
  for (let at = bytes.indexOf(LF_FROM); at !== -1; at = bytes.indexOf(LF_FROM, at + 1)) {
    if (hasFromLine(bytes, at + 1)) return at + 1;
  }
  return 0;
}

/** Position of the last message; 0 if it is the only one. */
export function lastMboxBoundary(bytes: Buffer): number {
  for (let at = bytes.lastIndexOf(LF_FROM); at > 0; at = bytes.lastIndexOf(LF_FROM, at - 1)) {
    if (hasFromLine(bytes, at + 1)) return at + 1;
  }
  return 0;
}

/** The messages of a chunk that begins with a From line, without their From lines and with `>From ` unescaped. */
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
