/**
 * The text of one message. Plain single-part mail, nearly all of the Enron corpus, is decoded here; every other shape
 * (multipart, HTML, base64, format=flowed, attachments, rare charsets) is postal-mime's, twenty times slower.
 */
import { isAscii } from "node:buffer";
import { TextDecoder } from "node:util";
import { convert } from "html-to-text";
import PostalMime, { type Email } from "postal-mime";
import { decodeUnlabelled, type Headers, rawHeader } from "./headers.js";

/** Bytes of which no mail can be made. `reason` is what the summary counts them under. */
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
      // Not a label of the Encoding Standard: postal-mime knows more names.
      decoders.set(charset, undefined);
    }
  }
  return decoders.get(charset);
}

/** One pass and linear, also on runs of spaces (libqp's is not). Marks that are none stay as they are. */
function decodeQuotedPrintable(bytes: Buffer): Buffer {
  const text = bytes
    .toString("latin1")
    .replace(/=(?:([0-9a-f]{2})|[ \t]*\r?\n|$)/gi, (_, hex: string | undefined) =>
      hex ? String.fromCharCode(Number.parseInt(hex, 16)) : "",
    );
  return Buffer.from(text, "latin1");
}

/** Undefined when the charset is unknown here. Much mail says us-ascii and means something wider. */
function decodeText(bytes: Buffer, charset: string): string | undefined {
  if (isAscii(bytes) && !/^(?:utf-?(?:7|16|32)|iso-2022|hz)/.test(charset)) return bytes.toString("latin1");
  if (/^(?:|us-ascii|ascii|ansi_x3\.4-1968|default|unknown.*|x-unknown)$/.test(charset)) return decodeUnlabelled(bytes);
  return decoder(charset)?.decode(bytes);
}

/** Undefined when the message is of a shape that is not read here. */
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

/** Text of any MIME structure: its plain parts, or the text of its HTML. Empty when there is neither. */
async function structuredBody(message: Buffer): Promise<string> {
  let email: Email;
  try {
    email = await PostalMime.parse(message, { rfc822Attachments: true });
  } catch (error) {
    // Parts nested hundreds deep, headers of megabytes.
    throw new NoMail("bad_mime", { cause: error });
  }
  const { text, html } = email;
  if (text?.trim()) return text;
  return html ? convert(html, { wordwrap: false, selectors: [{ selector: "img", format: "skip" }] }) : "";
}

/** LF line ends, no NULs, no line breaks at the end. Nothing else is changed: leftover `=20` marks stay as they came. */
export function storedText(text: string): string {
  let stored = text;
  if (stored.includes("\r")) stored = stored.replace(/\r\n?/g, "\n");
  if (stored.includes("\0")) stored = stored.replaceAll("\0", "");
  let end = stored.length;
  while (end > 0 && stored[end - 1] === "\n") end--;
  return stored.slice(0, end);
}

/** One line: tabs and breaks in a subject are from folding, by programs that did not undo it. No NULs. */
export function storedSubject(text: string): string {
  return text.replaceAll("\0", "").replace(/\s+/g, " ").trim();
}

/** The text of a message whose header has been read. A promise only where postal-mime is needed. */
export function readBody(message: Buffer, headers: Headers, bodyStart: number): string | Promise<string> {
  const plain = plainBody(headers, message.subarray(bodyStart));
  return plain === undefined ? structuredBody(message).then(storedText) : storedText(plain);
}
