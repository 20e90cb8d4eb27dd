/** The moment a mail was sent, in the form the database stores: UTC, "YYYY-MM-DD HH:MM:SS". */

/**
 * RFC 5322 (with the obsolete forms that are still about), asctime and ISO 8601. The runtime's parser reads them
 * all, but it also makes dates of text that holds none ("hello 1"), so the shape is checked first.
 */
const rfc5322 =
  /^(?:[a-z]{3,9},?\s*)?\d{1,2}[\s-][a-z]{3,9}[\s-]\d{2}(?:\d{2})?\s+\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s*(?:[+-]\d{4}|[a-z]{1,5}))?$/i;
const asctime = /^[a-z]{3}\s+[a-z]{3}\s+\d{1,2}\s+\d{1,2}:\d{2}:\d{2}(?:\s+(?:[+-]\d{4}|[a-z]{1,5}))?\s+\d{4}$/i;
const iso8601 = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:Z|[+-]\d{2}:?\d{2})?)?$/i;

/** What Exchange wrote for "no date": the DOS epoch. Nothing as old as that is mail from a mailbox. */
const DOS_EPOCH = Date.UTC(1980, 0, 1);

/** Milliseconds since 1970 to the database's form; undefined when it cannot be the date of a mail. */
export function storedDate(milliseconds: number): string | undefined {
  if (!(milliseconds > DOS_EPOCH)) return undefined;
  const iso = new Date(milliseconds).toISOString();
  // A year of five digits is written with a sign; it is no year of a mail.
  return iso.length === 24 ? `${iso.slice(0, 10)} ${iso.slice(11, 19)}` : undefined;
}

/** Reads a Date header, or a date as JSON holds it. Without a zone it is taken as UTC. Undefined when it is none. */
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
    // RFC 5322, 4.3: a zone nobody knows says nothing.
    return storedDate(Number.isNaN(parsed) ? Date.parse(bare.replace(/[a-z]{1,5}$/i, "GMT")) : parsed);
  }
  if (asctime.test(bare)) {
    const zoned = !/:\d{2}\s+\d{4}$/.test(bare);
    return storedDate(Date.parse(zoned ? bare : `${bare} GMT`));
  }
  return undefined;
}
