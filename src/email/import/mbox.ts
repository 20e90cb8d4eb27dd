/**
 * Finds the messages of an mbox. A message begins after a line `From ...` that the mail program adds. Programs differ in
 * what they write there: sender and date in English (`From ann@x.org Tue Nov 27 08:22:30 2001`), the date in their user's
 * language, or nothing at all (Thunderbird). What follows decides, therefore: the fields of a header. A line `From ...` of
 * the text itself is written `>From ...` (mboxrd: with one more `>`), or is left as it is.
 */
import { CR, LF, textStart } from "./lines.js";

const FROM = Buffer.from("From ");
const LF_FROM = Buffer.from("\nFrom ");

/** Bytes by which a From line is known: the line and the beginning of what follows. */
export const FROM_BYTES = 1024;

const dated = /^From \S.* (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? .*\d{1,2}:\d{2}/;
const bare = /^From \s*$/;
const lineEnd = /\r\n?|\n/;
const field = /^[!-9;-~]+[ \t]*:/;

/** Fields with which mail programs begin a message. */
export const knownField =
  /^(?:message-id|date|from|sender|to|cc|bcc|subject|received|return-path|reply-to|delivered-to|envelope-to|mime-version|content-type|x-[!-9;-~]+|dkim-signature|arc-[a-z-]+|authentication-results|errors-to|status|user-agent|in-reply-to|references|importance|thread-[a-z]+)\s*:/i;

/** Whether these lines are fields up to a blank line, a From line or their end, a known one among them. */
function isHeader(lines: readonly string[]): boolean {
  let isKnown = false;
  for (const line of lines) {
    if (line === "" || line.startsWith("From ")) break;
    // Folded; or the From line of a message that was forwarded as it was.
    if (/^(?:[ \t]|>From )/.test(line)) continue;
    if (!field.test(line)) return false;
    isKnown ||= knownField.test(line);
  }
  return isKnown;
}

function isAfterBlankLine(bytes: Buffer, offset: number): boolean {
  const before = bytes[offset - 2] === CR ? offset - 3 : offset - 2;
  return before < 0 || bytes[before] === LF;
}

/** Whether a message begins at `offset`, where a line begins. */
export function beginsMessage(bytes: Buffer, offset: number): boolean {
  if (bytes.compare(FROM, 0, FROM.length, offset, Math.min(offset + FROM.length, bytes.length)) !== 0) return false;
  const end = offset + FROM_BYTES;
  const text = bytes.toString("latin1", offset, end);
  // Most lines of a text that begin so are told by the next one.
  if (!/^(?:$|>From |[!-9;-~]+[ \t]*:)/.test(text.split(lineEnd, 2)[1] ?? "")) return false;
  const [fromLine = "", ...lines] = text.split(lineEnd);
  // The field From with a space before its colon, of this message or of one quoted in a text.
  if (field.test(fromLine)) return false;
  // The last is not whole.
  if (bytes.length > end && lines.length > 1) lines.pop();
  if (dated.test(fromLine))
    return lines[0] === "" ? isHeader(lines.slice(1)) : field.test(lines[0] ?? "") || isHeader(lines);
  return (bare.test(fromLine) || isAfterBlankLine(bytes, offset)) && isHeader(lines);
}

/** Whether a file with these first bytes is an mbox. */
export function isMbox(head: Buffer): boolean {
  const text = head.subarray(textStart(head));
  return beginsMessage(text, 0) || dated.test(text.toString("latin1", 0, FROM_BYTES));
}

/** Position of the second message; 0 if there is none. If more follows, the last {@link FROM_BYTES} do not show it. */
export function firstMboxBoundary(bytes: Buffer, moreFollows = false): number {
  const end = moreFollows ? bytes.length - FROM_BYTES : bytes.length;
  for (let at = bytes.indexOf(LF_FROM); at !== -1 && at < end; at = bytes.indexOf(LF_FROM, at + 1)) {
    if (beginsMessage(bytes, at + 1)) return at + 1;
  }
  return 0;
}

/** A message without its From line, with `>From ` unescaped. */
export function mboxMessage(bytes: Buffer): Buffer {
  const lineEnd = bytes.indexOf(LF);
  return lineEnd === -1 ? bytes.subarray(bytes.length) : unescaped(bytes.subarray(lineEnd + 1));
}

function unescaped(message: Buffer): Buffer {
  if (!message.includes(">From ")) return message;
  return Buffer.from(message.toString("latin1").replace(/^>(>*From )/gm, "$1"), "latin1");
}
