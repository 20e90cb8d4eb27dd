/**
 * Parses a message's header to unfolded text by name, as far as an importer needs it: real mail breaks every rule, so
 * no header is rejected, and a line that is not a header is skipped.
 */
import { isAscii, isUtf8 } from "node:buffer";
import { charsetsNamed, decode, decodeUnlabelled } from "./charset.js";
import { CR, LF } from "./lines.js";

/** Lower-case names; unfolded values in the order of the message. */
export type Headers = ReadonlyMap<string, readonly string[]>;

/** End of the header and start of the body, separated by an empty line. Accepts LF and CRLF. */
function boundary(message: Buffer): { headerEnd: number; bodyStart: number } {
  for (let end = message.indexOf(LF); end !== -1; end = message.indexOf(LF, end + 1)) {
    if (message[end + 1] === LF) return { headerEnd: end, bodyStart: end + 2 };
    if (message[end + 1] === CR && message[end + 2] === LF) return { headerEnd: end, bodyStart: end + 3 };
  }
  return { headerEnd: message.length, bodyStart: message.length };
}

/** The lines of a header. Bytes that are neither ASCII nor UTF-8 are in a charset that the message names elsewhere. */
function linesOf(header: Buffer, message: Buffer): string[] {
  if (isAscii(header) || isUtf8(header)) return decodeUnlabelled(header).split("\n");
  const charsets = charsetsNamed(message);
  return header
    .toString("latin1")
    .split("\n")
    .map((line) => {
      const bytes = Buffer.from(line, "latin1");
      return isUtf8(bytes) ? decodeUnlabelled(bytes) : decode(bytes, ...charsets, "windows-1252");
    });
}

/** Parses the header and returns the position of the body. Skips an mbox "From " line before it. */
export function readHeaders(message: Buffer): { headers: Headers; bodyStart: number } {
  const { headerEnd, bodyStart } = boundary(message);
  const headers = new Map<string, string[]>();
  let values: string[] | undefined;
  for (const line of linesOf(message.subarray(0, headerEnd), message)) {
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
  return decodeWords(rawHeader(headers, name));
}

interface EncodedWord {
  readonly charset: string;
  readonly bytes: Buffer;
}

/** One linear pass, also for runs of spaces (libqp's is not linear). Invalid escapes stay unchanged. */
export function decodeQuotedPrintable(bytes: Buffer): Buffer {
  const text = bytes
    .toString("latin1")
    .replace(/=(?:([0-9a-f]{2})|[ \t]*\r?\n|$)/gi, (_, hex: string | undefined) =>
      hex ? String.fromCharCode(Number.parseInt(hex, 16)) : "",
    );
  return Buffer.from(text, "latin1");
}

function bytesOf(encoding: string, text: string): Buffer {
  if (/b/i.test(encoding)) return Buffer.from(text, "base64");
  return decodeQuotedPrintable(Buffer.from(text.replaceAll("_", " ")));
}

/** The text of encoded words that stand together. */
function textOf(words: readonly EncodedWord[]): string {
  const separate = () => words.map(({ charset, bytes }) => decode(bytes, charset)).join("");
  if (new Set(words.map(({ charset }) => charset.toLowerCase())).size > 1) return separate();
  // A character may begin in one word and end in the next.
  const joined = decode(Buffer.concat(words.map(({ bytes }) => bytes)), words[0]?.charset ?? "");
  return joined.includes("\ufffd") ? separate() : joined;
}

/** An encoded word of RFC 2047. Few are longer than its 75 characters; a limit keeps what is never closed from taking forever. */
const encodedWord = /=\?([^?\s*]{1,60})(?:\*[^?\s]{0,40})?\?([bq])\?(.{0,2000}?)\?=/gi;

/**
 * Decodes encoded words. Those of one charset are joined as bytes: programs split text into words where the length demands it,
 * also inside a character, and pad each by itself.
 */
function decodeWords(text: string): string {
  let decoded = "";
  let words: EncodedWord[] = [];
  let from = 0;
  for (const { 0: whole, 1: charset = "", 2: encoding = "", 3: content = "", index } of text.matchAll(encodedWord)) {
    const between = text.slice(from, index);
    // Space between encoded words is not part of the text.
    if (words.length > 0 && between.trim() !== "") {
      decoded += textOf(words);
      words = [];
    }
    if (words.length === 0) decoded += between;
    words.push({ charset, bytes: bytesOf(encoding, content) });
    from = index + whole.length;
  }
  return decoded + textOf(words) + text.slice(from);
}
