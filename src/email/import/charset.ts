/**
 * Decodes bytes by the charset that a mail names: labels of the Encoding Standard by the runtime, UTF-7, DOS code pages
 * and others by iconv-lite, also where a mail program put something around the label (`x-ms-cp932`, `gb2312_charset`,
 * `_iso-2022-jp$SIO`). Text in UTF-8 is known by itself, whatever its label.
 */
import { isAscii, isUtf8 } from "node:buffer";
import { TextDecoder } from "node:util";
import iconv from "iconv-lite";

/** Names that only mail programs use. */
const aliases = new Map([
  ["cp65001", "utf-8"],
  ["cn-gb", "gb2312"],
]);

type Decode = (bytes: Buffer) => string;

const ESC = 0x1b;
const REPLACEMENT = "\ufffd";

/** What a program writes that does not know. */
const unknown = /^(?:us-?ascii|ascii|ansi_x3\.4-19\d\d|ansi|default|none|binary|unknown.*|x-unknown|_?auto.*|\?*)$/;

/** Of either order of bytes; the text shows which. */
const utf16 = /^(?:utf.?16|unicode|(?:iso-10646-)?ucs-?2)$/;

function standard(label: string): Decode | undefined {
  try {
    const decoder = new TextDecoder(label);
    return (bytes) => decoder.decode(bytes);
  } catch {
    // Not a label of the Encoding Standard, or one that it does not decode.
    return undefined;
  }
}

/** Undefined for a label that names no charset. */
function decoderOf(given: string): Decode | undefined {
  const label = given.trim().toLowerCase();
  if (unknown.test(label)) return undefined;
  // Without a zero byte it is another charset, whatever the label says.
  if (utf16.test(label))
    return (bytes) => (bytes.includes(0) ? iconv.decode(bytes, "utf-16") : decodeUnlabelled(bytes));
  const direct = standard(label);
  if (direct) return direct;
  // iconv-lite also has what is no charset.
  if (!/^(?:base64|hex)$/.test(label) && iconv.encodingExists(label)) return (bytes) => iconv.decode(bytes, label);
  const bare = aliases.get(label) ?? label.replace(/^(?:x-|ms-|_)|(?:_charset|\$.*)$/g, "");
  return bare === label ? undefined : decoderOf(bare);
}

/** Charsets that write other text with the bytes of ASCII. */
const sevenBit = /utf.?(?:7|16|32)|ucs|unicode|2022/i;

const windows1252 = standard("windows-1252") as Decode;
const iso2022jp = standard("iso-2022-jp") as Decode;

/** Decodes text of no charset: UTF-8 if it is, else Windows-1252, the superset of Latin-1 that old mail uses. */
export function decodeUnlabelled(bytes: Buffer): string {
  if (isAscii(bytes)) {
    const isShifted = bytes.includes(ESC) && bytes.includes("\u001b$");
    return isShifted ? iso2022jp(bytes) : bytes.toString("latin1");
  }
  return isUtf8(bytes) ? bytes.toString("utf8") : windows1252(bytes);
}

/** Decodes by the first of the labels that fits the bytes, else as UTF-8 if they are that, else by the first that is known. */
export function decode(bytes: Buffer, ...labels: readonly string[]): string {
  if (isAscii(bytes) && !bytes.includes(ESC) && !labels.some((label) => sevenBit.test(label))) {
    return bytes.toString("latin1");
  }
  let first: string | undefined;
  for (const label of labels) {
    const text = decoderOf(label)?.(bytes);
    if (text !== undefined && !text.includes(REPLACEMENT)) return text;
    first ??= text;
  }
  return first === undefined || isUtf8(bytes) ? decodeUnlabelled(bytes) : first;
}

/** The charset of a Content-Type; empty if it names none. */
export const charsetOf = (contentType: string): string =>
  /[;\s]charset(?:\*0?\*?)?\s*=\s*["']*([^\s;"']+)/i.exec(contentType)?.[1] ?? "";

/** Where pages name their charset. */
const HEAD = 2048;

/** The charset that an HTML page names; empty if it names none. */
export const charsetOfHtml = (page: Buffer): string =>
  /<(?:meta|\?xml)\b[^>]*?(?:charset|encoding)\s*=\s*["']?\s*([^\s;"'>/]+)/i.exec(
    page.toString("latin1", 0, HEAD),
  )?.[1] ?? "";

/** The charsets named anywhere in a message's first bytes, for text in it that names none. */
export function charsetsNamed(message: Buffer): string[] {
  const named = message.toString("latin1", 0, 32 * HEAD).matchAll(/(?:charset\s*=\s*["']*|=\?)([\w.:-]{3,40})/gi);
  return [...new Set([...named].map(([, label = ""]) => label.toLowerCase()))];
}
