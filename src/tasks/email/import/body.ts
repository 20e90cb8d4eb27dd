/**
 * Extracts the text of a message. Plain single-part mail, nearly all of the Enron corpus, is decoded here; all other
 * forms (multipart, HTML, base64, format=flowed, attachments, rare charsets) go through postal-mime, twenty times
 * slower.
 */
import { isAscii } from "node:buffer";
import { TextDecoder } from "node:util";
import { convert } from "html-to-text";
import PostalMime, { type Email } from "postal-mime";
import { decodeUnlabelled, type Headers, rawHeader } from "./headers.js";

/** The bytes are not a mail. `reason` is the key in the summary. */
export class NoMail extends Error {
  constructor(
    readonly reason: "empty" | "not_mail" | "bad_mime",
    options?: ErrorOptions,
  ) {
    super(reason, options);
  }
}

const plainText = /^(?:text|text\/plain)?\s*(?:;|$)/i;
const charsetParameter = /;\s*charset\s*=\s*"?([^\s;"]+)/i;

const decoders = new Map<string, TextDecoder | undefined>();

function decoder(charset: string): TextDecoder | undefined {
  if (!decoders.has(charset)) {
    try {
      decoders.set(charset, new TextDecoder(charset));
    } catch {
      // Not a label of the Encoding Standard, but postal-mime may know it.
      decoders.set(charset, undefined);
    }
  }
  return decoders.get(charset);
}

/** One linear pass, also for runs of spaces (libqp's is not linear). Invalid escapes stay unchanged. */
function decodeQuotedPrintable(bytes: Buffer): Buffer {
  const text = bytes
    .toString("latin1")
    .replace(/=(?:([0-9a-f]{2})|[ \t]*\r?\n|$)/gi, (_, hex: string | undefined) =>
      hex ? String.fromCharCode(Number.parseInt(hex, 16)) : "",
    );
  return Buffer.from(text, "latin1");
}

/** Undefined for a charset that is unknown here. Much mail is labelled us-ascii but uses a superset. */
function decodeText(bytes: Buffer, charset: string): string | undefined {
  if (isAscii(bytes) && !/^(?:utf-?(?:7|16|32)|iso-2022|hz)/.test(charset)) return bytes.toString("latin1");
  if (/^(?:|us-ascii|ascii|ansi_x3\.4-1968|default|unknown.*|x-unknown)$/.test(charset)) return decodeUnlabelled(bytes);
  return decoder(charset)?.decode(bytes);
}

/** Undefined for a message that must go through postal-mime. */
function plainBody(headers: Headers, body: Buffer): string | undefined {
  const type = rawHeader(headers, "content-type");
  if (!plainText.test(type) || /format\s*=\s*"?flowed/i.test(type)) return undefined;
  if (/^attachment/i.test(rawHeader(headers, "content-disposition"))) return undefined;
  const charset = charsetParameter.exec(type)?.[1]?.toLowerCase() ?? "";
  const encoding = rawHeader(headers, "content-transfer-encoding").trim().toLowerCase();
  if (encoding === "quoted-printable") return decodeText(decodeQuotedPrintable(body), charset);
  if (/^(?:|7bit|8bit|binary)$/.test(encoding)) return decodeText(body, charset);
  return undefined;
}

/** Text of any MIME structure: its plain parts, or the text of its HTML. Empty without either. */
async function structuredBody(message: Buffer): Promise<string> {
  let email: Email;
  try {
    email = await PostalMime.parse(message, { rfc822Attachments: true });
  } catch (error) {
    // For example parts nested hundreds deep, or megabytes of headers.
    throw new NoMail("bad_mime", { cause: error });
  }
  const { text, html } = email;
  if (text?.trim()) return text;
  return html ? convert(html, { wordwrap: false, selectors: [{ selector: "img", format: "skip" }] }) : "";
}

/** LF line ends, no NULs, no line breaks at the end. Otherwise unchanged, including undecoded `=20`. */
export function storedText(text: string): string {
  let stored = text;
  if (stored.includes("\r")) stored = stored.replace(/\r\n?/g, "\n");
  if (stored.includes("\0")) stored = stored.replaceAll("\0", "");
  let end = stored.length;
  while (end > 0 && stored[end - 1] === "\n") end--;
  return stored.slice(0, end);
}

/** A single line: tabs and breaks in a subject come from folding that was not undone. No NULs. */
export function storedSubject(text: string): string {
  return text.replaceAll("\0", "").replace(/\s+/g, " ").trim();
}

/** The text of a message after its header was parsed. Returns a promise only for postal-mime. */
export function readBody(message: Buffer, headers: Headers, bodyStart: number): string | Promise<string> {
  const plain = plainBody(headers, message.subarray(bodyStart));
  return plain === undefined ? structuredBody(message).then(storedText) : storedText(plain);
}
