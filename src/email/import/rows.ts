/** Converts rows of corbt/enron-emails, from JSON or Parquet, to mails. */
import { z } from "zod";
import { derivedId, type Mail } from "../mail.js";
import { normalAddress, readAddresses } from "./addresses.js";
import { storedSubject, storedText } from "./body.js";
import { readDate, storedDate } from "./dates.js";
import { withoutRepeatedCc } from "./message.js";

const text = z.string().nullish();
/** A list, or a comma-separated text. */
const people = z.union([z.array(z.string().nullable()), z.string()]).nullish();

const mailRow = z.object({
  message_id: text,
  subject: text,
  from: text,
  to: people,
  cc: people,
  bcc: people,
  date: z.union([z.string(), z.number(), z.date()]).nullish(),
  body: z.string(),
  file_name: text,
});

/** The columns to read. */
export const mailColumns = Object.keys(mailRow.shape);

/** Values in seconds since 1970 are smaller until the year 5138; values in milliseconds are larger since 1973. */
const MILLISECONDS_FROM = 1e11;

function rowDate(date: z.output<typeof mailRow>["date"]): string | undefined {
  if (date === null || date === undefined) return undefined;
  if (typeof date === "string") return readDate(date);
  if (typeof date === "number") return storedDate(date < MILLISECONDS_FROM ? date * 1000 : date);
  return storedDate(date.getTime());
}

function list(value: z.output<typeof people>): string[] {
  if (!value) return [];
  return readAddresses(typeof value === "string" ? [value] : value.filter((item): item is string => Boolean(item)));
}

/** Undefined when the row is not a mail. */
export function rowToMail(row: unknown, name: string): Mail | undefined {
  const parsed = mailRow.safeParse(row);
  if (!parsed.success) return undefined;
  const { message_id, subject, from, date, body, file_name, ...lists } = parsed.data;
  const cc = list(lists.cc);
  const mail = {
    subject: storedSubject(subject ?? ""),
    from: normalAddress(from ?? "") ?? readAddresses(from ? [from] : [])[0] ?? "",
    to: list(lists.to),
    cc,
    bcc: withoutRepeatedCc(list(lists.bcc), cc),
    date: rowDate(date),
    body: storedText(body),
  };
  return { messageId: message_id?.trim() || derivedId(mail), ...mail, fileName: file_name || name };
}
