/**
 * Parses a message's header to unfolded text by name, as far as an importer needs it: real mail breaks every rule, so
 * no header is rejected, and a line that is not a header is skipped.
 */
import { isAscii, isUtf8 } from "node:buffer";
import { TextDecoder } from "node:util";
import { decodeWords } from "postal-mime";

/** Lower-case names; unfolded values in the order of the message. */
export type Headers = ReadonlyMap<string, readonly string[]>;

const LF = 10;
const CR = 13;

const windows1252 = new TextDecoder("windows-1252");

/** Decodes ASCII or UTF-8 if valid, else Windows-1252, the superset of Latin-1 used in old mail. */
export function decodeUnlabelled(bytes: Buffer): string {
  if (isAscii(bytes)) return bytes.toString("latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : windows1252.decode(bytes);
}

/** End of the header and start of the body, separated by an empty line. Accepts LF and CRLF. */
function boundary(message: Buffer): { headerEnd: number; bodyStart: number } {
  for (let end = message.indexOf(LF); end !== -1; end = message.indexOf(LF, end + 1)) {
    if (message[end + 1] === LF) return { headerEnd: end, bodyStart: end + 2 };
    if (message[end + 1] === CR && message[end + 2] === LF) return { headerEnd: end, bodyStart: end + 3 };
  }
  return { headerEnd: message.length, bodyStart: message.length };
}

/** Parses the header and returns the position of the body. Skips an mbox "From " line before it. */
export function readHeaders(message: Buffer): { headers: Headers; bodyStart: number } {
  const { headerEnd, bodyStart } = boundary(message);
  const headers = new Map<string, string[]>();
  let values: string[] | undefined;
  for (const line of decodeUnlabelled(message.subarray(0, headerEnd)).split("\n")) {
    const text = line.endsWith("\r") ? line.slice(0, -1) : line;
    if (text.startsWith(" ") || text.startsWith("\t")) {
      // The space at which the line was folded is restored.
      if (values) values.push(`${values.pop()} ${text.trim()}`);
      continue;
    }
    const colon = text.indexOf(":");
    const name = text.slice(0, colon).trimEnd().toLowerCase();
    if (colon <= 0 || name.includes(" ")) {
      values = undefined;
      continue;
    }
    values = headers.get(name);
    if (!values) {
      values = [];
      headers.set(name, values);
    }
    values.push(text.slice(colon + 1).trim());
  }
  return { headers, bodyStart };
}

/** The first header of a name, undecoded; empty if missing. */
export function rawHeader(headers: Headers, name: string): string {
  return headers.get(name)?.[0] ?? "";
}

/** The first header of a name with its encoded words decoded; empty if missing. */
export function textHeader(headers: Headers, name: string): string {
  const raw = rawHeader(headers, name);
  return raw.includes("=?") ? decodeWords(raw) : raw;
}
