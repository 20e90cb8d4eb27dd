/** Parses what was found to mails: all of the expensive work. */
import type { Mail } from "../mail.js";
import { NoMail } from "./body.js";
import {
  type Found,
  type ImportRules,
  MAX_MESSAGE_BYTES,
  type Parsed,
  type Skipped,
  type SkipReason,
} from "./found.js";
import { readMessage } from "./message.js";
import { rowToMail } from "./rows.js";

/** Parses in order. */
export async function parse(found: readonly Found[], { maxBody, maxRecipients }: ImportRules): Promise<Parsed> {
  const mails: Mail[] = [];
  const skipped: Skipped[] = [];
  const skip = (reason: SkipReason, fileName: string) => void skipped.push({ reason, fileName });

  function keep(mail: Mail): void {
    if (maxBody > 0 && mail.body.length > maxBody) skip("body_too_long", mail.fileName);
    else if (maxRecipients > 0 && new Set([...mail.to, ...mail.cc, ...mail.bcc]).size > maxRecipients) {
      skip("too_many_recipients", mail.fileName);
    } else mails.push(mail);
  }

  async function message(bytes: Buffer, fileName: string): Promise<void> {
    if (bytes.length > MAX_MESSAGE_BYTES) return skip("too_large", fileName);
    try {
      keep(await readMessage(bytes, fileName));
    } catch (error) {
      if (!(error instanceof NoMail)) throw error;
      skip(error.reason, fileName);
    }
  }

  for (const one of found) {
    if (one.kind === "message") await message(one.bytes, one.name);
    else if (one.kind === "skipped") skip(one.reason, one.name);
    else {
      const mail = rowToMail(one.values, one.name);
      if (mail) keep(mail);
      else skip("bad_row", one.name);
    }
  }
  return { mails, skipped };
}
