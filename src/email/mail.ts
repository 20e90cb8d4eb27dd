import { createHash } from "node:crypto";

/** One mail as every importer delivers it and the database stores it. */
export interface Mail {
  /** As in the header, including angle brackets. Unique in the database. */
  messageId: string;
  /** Empty when there is none. */
  subject: string;
  /** Bare lower-case address; empty when there is none. */
  from: string;
  /** Bare lower-case addresses, in the order of the header, each once. */
  to: string[];
  cc: string[];
  bcc: string[];
  /** UTC, "YYYY-MM-DD HH:MM:SS"; undefined when the mail has no usable date. */
  date: string | undefined;
  /** Plain text, LF line ends. */
  body: string;
  /** Its source: a path, or an archive and the path in it. */
  fileName: string;
}

/** An id computed from the content, for a mail without an id or with the id of another mail. */
export function derivedId(mail: Omit<Mail, "messageId" | "fileName">): string {
  const { from, to, cc, date, subject, body } = mail;
  const digest = createHash("sha256").update(JSON.stringify([from, to, cc, date ?? "", subject, body]));
  return `<${digest.digest("hex").slice(0, 32)}@derived.hone>`;
}

/** Whether the mail's id was made by {@link derivedId}. */
export function hasDerivedId({ messageId }: Pick<Mail, "messageId">): boolean {
  return messageId.endsWith("@derived.hone>");
}
