/**
 * Extracts the text of a message. Plain single-part mail, nearly all of the Enron corpus, is decoded here; all other
 * forms (multipart, HTML, base64, format=flowed, attachments, rare charsets) go through postal-mime, twenty times
 * slower.
 */
import { compile } from "html-to-text";
import PostalMime, { type PostalMimeOptions } from "postal-mime";
import { charsetOf, charsetOfHtml, decode } from "./charset.js";
import { decodeQuotedPrintable, type Headers, rawHeader } from "./headers.js";

/** The bytes are not a mail. `reason` is the key in the summary. */
export class NoMail extends Error {
  constructor(
    readonly reason: "empty" | "not_mail" | "bad_mime",
    options?: ErrorOptions,
  ) {
    super(reason, options);
  }
}

/** Every text but HTML counts as plain (RFC 2046, 4.1.4), and so does what names no type (RFC 2045, 5.2). */
const plainText = /^(?:text\/(?!html\b)[^;]*|[^;/]*)(?:;|$)/i;

/** Undefined for a message that must go through postal-mime. */
function plainBody(headers: Headers, body: Buffer): string | undefined {
  const type = rawHeader(headers, "content-type");
  if (!plainText.test(type) || /format\s*=\s*"?flowed/i.test(type)) return undefined;
  if (/^attachment/i.test(rawHeader(headers, "content-disposition"))) return undefined;
  const charset = charsetOf(type);
  const encoding = rawHeader(headers, "content-transfer-encoding").trim().toLowerCase();
  if (encoding === "quoted-printable") return decode(decodeQuotedPrintable(body), charset);
  if (encoding === "base64") return decode(Buffer.from(body.toString("latin1"), "base64"), charset);
  if (/^(?:|7bit|8bit|binary)$/.test(encoding)) return decode(body, charset);
  return undefined;
}

/** A part as postal-mime keeps it. */
interface Part {
  readonly contentType: { readonly parsed: { readonly value: string; readonly params: Record<string, string> } };
  /** Decoded from base64 or quoted-printable. */
  content: ArrayBuffer | null;
}

/** postal-mime with a method that its types leave out: it takes each part when all are there. */
const Parser = PostalMime as unknown as new (
  options: PostalMimeOptions,
) => PostalMime & { collectNode(part: Part, ...rest: unknown[]): Promise<void> };

/** postal-mime decodes what is not labelled, or is labelled as no standard has it, as UTF-8 or Windows-1252. */
class StructureParser extends Parser {
  override collectNode(part: Part, ...rest: unknown[]): Promise<void> {
    const { value, params } = part.contentType.parsed;
    if (part.content && /^text\//.test(value)) {
      const bytes = Buffer.from(part.content);
      const labels = [
        charsetOf(`;charset=${params.charset ?? ""}`),
        ...(value === "text/html" ? [charsetOfHtml(bytes)] : []),
      ];
      part.content = new Uint8Array(Buffer.from(decode(bytes, ...labels))).buffer;
      params.charset = "utf-8";
    }
    return super.collectNode(part, ...rest);
  }
}

/**
 * The text of HTML. All of the document, not of its body alone: a reply stands before the page that it quotes, and
 * several parts are joined to one. No limit of length, since inlined pictures count.
 */
const textOfHtml = compile({
  wordwrap: false,
  baseElements: { selectors: [] },
  limits: { maxInputLength: 0 },
  formatters: {
    cell(cell, walk, builder) {
      walk(cell.children, builder);
      builder.addInline(" ");
    },
  },
  selectors: [
    ...["img", "title"].map((selector) => ({ selector, format: "skip" })),
    ...["td", "th"].map((selector) => ({ selector, format: "cell" })),
    ...["address", "caption", "center", "dd", "dt", "figcaption", "tr"].map((selector) => ({
      selector,
      format: "block",
      options: { leadingLineBreaks: 1, trailingLineBreaks: 1 },
    })),
    ...["h1", "h2", "h3", "h4", "h5", "h6"].map((selector) => ({ selector, options: { uppercase: false } })),
  ],
});

/** Text of any MIME structure: its plain parts, or the text of its HTML. Empty without either. */
async function structuredBody(message: Buffer): Promise<string> {
  try {
    const { text, html } = await new StructureParser({ rfc822Attachments: true }).parse(message);
    if (text?.trim()) return text;
    return html ? textOfHtml(html) : "";
  } catch (error) {
    // For example parts nested hundreds deep, elements nested thousands deep, or megabytes of headers.
    throw new NoMail("bad_mime", { cause: error });
  }
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

/** The text of a message after its header was parsed. */
export async function readBody(message: Buffer, headers: Headers, bodyStart: number): Promise<string> {
  return storedText(plainBody(headers, message.subarray(bodyStart)) ?? (await structuredBody(message)));
}
