/** Parses one RFC 5322 message to a {@link Mail}. */
import { derivedId, type Mail } from "../mail.js";
import { readAddresses, readExchangeAddresses } from "./addresses.js";
import { NoMail, readBody, storedSubject } from "./body.js";
import { dateReceived, readDate } from "./dates.js";
import { type Headers, rawHeader, readHeaders, textHeader } from "./headers.js";
import { crToLf, endsWithCr, textStart } from "./lines.js";

/** Bytes without any of these headers are not a message. */
const identifying = ["from", "to", "cc", "date", "subject", "message-id", "x-from", "received", "return-path"];

/** `<id>` as in the header; ids without brackets stay without. */
function readMessageId(value: string): string {
  return /<[^<>\s]+>/.exec(value)?.[0] ?? value.trim();
}

/** Exchange exports repeat the Cc in Bcc; such addresses are removed. */
export function withoutRepeatedCc(bcc: string[], cc: readonly string[]): string[] {
  return bcc.length === cc.length && bcc.every((address, index) => address === cc[index]) ? [] : bcc;
}

function people(headers: Headers): Pick<Mail, "from" | "to" | "cc" | "bcc"> {
  const from = readAddresses(headers.get("from"))[0] ?? readAddresses(headers.get("sender"))[0] ?? "";
  let to = readAddresses(headers.get("to"));
  const cc = readAddresses(headers.get("cc"));
  const bcc = withoutRepeatedCc(readAddresses(headers.get("bcc")), cc);
  if (to.length + cc.length + bcc.length === 0) to = readExchangeAddresses(headers.get("x-to"));
  return { from, to, cc, bcc };
}

/** A message from its first header on, with line ends of today. */
function normalised(bytes: Buffer): Buffer {
  const message = bytes.subarray(textStart(bytes));
  // CRLF that a transfer as text has lengthened.
  if (message.includes("\r\r\n")) return Buffer.from(message.toString("latin1").replaceAll("\r\r\n", "\n"), "latin1");
  if (!endsWithCr(message)) return message;
  const copy = Buffer.from(message);
  crToLf(copy);
  return copy;
}

/**
 * Parses one message.
 *
 * @throws NoMail when the bytes are not a mail, or their MIME cannot be parsed
 */
export async function readMessage(bytes: Buffer, fileName: string): Promise<Mail> {
  const message = normalised(bytes);
  const { headers, bodyStart } = readHeaders(message);
  if (!identifying.some((name) => headers.has(name))) {
    throw new NoMail(bytes.every((byte) => byte <= 0x20) ? "empty" : "not_mail");
  }
  const mail = {
    subject: storedSubject(textHeader(headers, "subject")),
    ...people(headers),
    date: readDate(textHeader(headers, "date")) ?? dateReceived(headers.get("received")),
  };
  const messageId = readMessageId(rawHeader(headers, "message-id"));
  const body = await readBody(message, headers, bodyStart);
  return { messageId: messageId || derivedId({ ...mail, body }), ...mail, body, fileName };
}
