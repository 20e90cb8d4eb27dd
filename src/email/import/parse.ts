/** Parses what was found to mails: all of the expensive work. */
import type { Mail } from "../mail.js";
import { NoMail } from "./body.js";
import { type Found, type ImportRules, MAX_MESSAGE_BYTES, type Skipped, type SkipReason } from "./found.js";
import { readMessage } from "./message.js";
import { rowToMail } from "./rows.js";

const skipped = (reason: SkipReason, name: string): Skipped => ({ kind: "skipped", reason, name });

async function read(found: Found): Promise<Mail | Skipped> {
  const { kind, name } = found;
  if (kind === "skipped") return found;
  if (kind === "row") return rowToMail(found.values, name) ?? skipped("bad_row", name);
  if (found.bytes.length > MAX_MESSAGE_BYTES) return skipped("too_large", name);
  try {
    return await readMessage(found.bytes, name);
  } catch (error) {
    if (!(error instanceof NoMail)) throw error;
    return skipped(error.reason, name);
  }
}

/** The mail, or why there is none. */
export async function parse(found: Found, { maxBody, maxRecipients }: ImportRules): Promise<Mail | Skipped> {
  const mail = await read(found);
  if ("reason" in mail) return mail;
  if (maxBody > 0 && mail.body.length > maxBody) return skipped("body_too_long", mail.fileName);
  const recipients = new Set([...mail.to, ...mail.cc, ...mail.bcc]).size;
  return maxRecipients > 0 && recipients > maxRecipients ? skipped("too_many_recipients", mail.fileName) : mail;
}
