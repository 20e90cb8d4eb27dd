/**
 * Parses the date of a mail to the format of the database: UTC, "YYYY-MM-DD HH:MM:SS". JavaScript's own parser reads RFC 5322
 * in its old and new forms, ISO 8601, and what mail programs write in their place; here is what it takes otherwise than mail
 * means it: times without a zone, zones with other names, days before months.
 */

/** Exchange's value for "no date", the DOS epoch. Mail of a mailbox is not that old. */
const DOS_EPOCH = Date.UTC(1980, 0, 1);

/** No date is longer, with its comments. */
const MAX_CHARACTERS = 200;

/** Converts milliseconds since 1970; undefined for a value that cannot be the date of a mail. */
export function storedDate(milliseconds: number): string | undefined {
  if (!(milliseconds > DOS_EPOCH)) return undefined;
  const date = new Date(milliseconds);
  // A year of five digits has a sign in ISO 8601, and no mail has one.
  if (!(date.getTime() < Date.UTC(10_000, 0))) return undefined;
  const iso = date.toISOString();
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)}`;
}

const clock = /T?(\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s?[ap]m\b)?)/i;
/** 1.6.2023 and 1-6-2023; 6/1/2023 is American. */
const dayFirst = /(?<!\d)(\d{1,2})([.-])(\d{1,2})\2(\d{4})/;
/** Zones of RFC 5322; others count as UTC (4.3). */
const zone = /^(?:z|utc?|gmt|[ecmp][sd]t)$/i;
/** The year that JavaScript takes where there is none, as it may be written. */
const DEFAULT_YEAR = 2001;
const defaultYear = /\b(?:\d\d)?01\b/;

/** Parses a Date header, or a date in JSON. Without a time zone it is UTC. Undefined if invalid. */
export function readDate(text: string): string | undefined {
  if (text.length > MAX_CHARACTERS) return undefined;
  // Seconds or milliseconds since 1970.
  if (/^\d{9,10}$|^\d{12,13}$/.test(text)) return storedDate(Number(text) * (text.length < 11 ? 1000 : 1));
  const time = clock.exec(text);
  const day = (time ? text.slice(0, time.index) : text).replace(dayFirst, "$4-$3-$1");
  const rest = time ? text.slice(time.index + time[0].length) : "";
  // A zone behind "UTC" takes its place.
  const zones = rest.replace(/\p{L}+/gu, (word) => (zone.test(word) ? word : " "));
  const date = new Date(`${day} ${time?.[1] ?? ""} UTC ${zones}`);
  if (date.getUTCFullYear() === DEFAULT_YEAR && !defaultYear.test(text)) return undefined;
  return storedDate(date.getTime());
}

/** The newest date in the Received headers; every server puts its own before those of others. */
export function dateReceived(received: readonly string[] = []): string | undefined {
  for (const value of received) {
    const date = readDate(value.slice(value.lastIndexOf(";") + 1));
    if (date !== undefined) return date;
  }
  return undefined;
}
