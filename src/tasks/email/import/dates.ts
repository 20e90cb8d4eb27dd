/** Parses the date of a mail to the format of the database: UTC, "YYYY-MM-DD HH:MM:SS". */

/**
 * RFC 5322 (with its obsolete forms), asctime and ISO 8601. The runtime's parser reads all of them but also accepts
 * text without a date ("hello 1"), so the form is checked first.
 */
const rfc5322 =
  /^(?:[a-z]{3,9},?\s*)?\d{1,2}[\s-][a-z]{3,9}[\s-]\d{2}(?:\d{2})?\s+\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s*(?:[+-]\d{4}|[a-z]{1,5}))?$/i;
const asctime = /^[a-z]{3}\s+[a-z]{3}\s+\d{1,2}\s+\d{1,2}:\d{2}:\d{2}(?:\s+(?:[+-]\d{4}|[a-z]{1,5}))?\s+\d{4}$/i;
const iso8601 = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:Z|[+-]\d{2}:?\d{2})?)?$/i;

/** Exchange's value for "no date", the DOS epoch. Mail of a mailbox is not that old. */
const DOS_EPOCH = Date.UTC(1980, 0, 1);

/** Converts milliseconds since 1970; undefined for a value that cannot be the date of a mail. */
export function storedDate(milliseconds: number): string | undefined {
  if (!(milliseconds > DOS_EPOCH)) return undefined;
  const iso = new Date(milliseconds).toISOString();
  // A year of five digits has a sign; no mail has one.
  return iso.length === 24 ? `${iso.slice(0, 10)} ${iso.slice(11, 19)}` : undefined;
}

/** Parses a Date header, or a date in JSON. Without a time zone it is UTC. Undefined if invalid. */
export function readDate(text: string): string | undefined {
  const bare = text.replace(/\([^()]*\)/g, " ").trim();
  if (iso8601.test(bare)) {
    const [day, time] = [bare.slice(0, 10), bare.slice(11).replace(/\s/g, "")];
    const zone = /(?:Z|[+-]\d{2}:?\d{2})$/i.test(time) ? "" : "Z";
    return storedDate(Date.parse(time ? `${day}T${time}${zone}` : day));
  }
  if (rfc5322.test(bare)) {
    if (!/[+-]\d{4}$|\d\s*[a-z]{1,5}$/i.test(bare)) return storedDate(Date.parse(`${bare} GMT`));
    const parsed = Date.parse(bare);
    // RFC 5322, 4.3: an unknown time zone is ignored.
    return storedDate(Number.isNaN(parsed) ? Date.parse(bare.replace(/[a-z]{1,5}$/i, "GMT")) : parsed);
  }
  if (asctime.test(bare)) {
    const zoned = !/:\d{2}\s+\d{4}$/.test(bare);
    return storedDate(Date.parse(zoned ? bare : `${bare} GMT`));
  }
  return undefined;
}
