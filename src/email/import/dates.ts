/**
 * Parses the date of a mail to the format of the database: UTC, "YYYY-MM-DD HH:MM:SS". Mail programs write RFC 5322 in
 * its old and new forms, ISO 8601, JavaScript's and C's forms, and forms of Chinese, Japanese and Korean. The parts of a
 * date are therefore looked for one after the other: day, time, zone.
 */
import { monthNames } from "../answer.js";

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

/** 1 to 12, of at least three letters of an English name; 0 for another word. */
function monthOf(name: string): number {
  const word = name.toLowerCase();
  return word.length < 3 ? 0 : 1 + monthNames.findIndex((month) => month.startsWith(word));
}

/** Hours of the zones of RFC 5322; others count as UTC (4.3). */
const zones: Readonly<Record<string, number>> = {
  edt: -4,
  est: -5,
  cdt: -5,
  cst: -6,
  mdt: -6,
  mst: -7,
  pdt: -7,
  pst: -8,
};

interface Day {
  readonly year: number | undefined;
  readonly month: number;
  readonly day: number;
  /** The text without what was read. */
  readonly rest: string;
}

const numbersFirst = /(?<!\d)(\d{4})\s?[-/.年년]\s?(\d{1,2})\s?[-/.月월]\s?(\d{1,2})(?!\d)[日일]?/;
const compact = /(?<!\d)(\d{4})(\d\d)(\d\d)(?=T\d|$)/;
const numbersLast = /(?<![\d:.])(\d{1,2})([-/.])\s?(\d{1,2})\2\s?(\d{4}|\d\d)(?![\d:])/;
const dayMonth =
  /(?<![\d:])(\d{1,2})(?:st|nd|rd|th|\.|º)?(?:\s+de)?[\s\-/]*(\p{L}[\p{L}\p{M}]{2,})\.?(?:\s+de)?[\s\-/,]*(?:(\d{2,4})(?![\d:]))?/giu;
const monthDay = /(\p{L}[\p{L}\p{M}]{2,})\.?[\s\-/]+(\d{1,2})(?:st|nd|rd|th)?(?![\d:])(?:,?[\s\-/]+(\d{4})(?!\d))?/giu;
const chinese = /(\d{1,2})(?:\s|日)*(1[0-2]|[1-9])月\s*(\d{4})/;

const without = (text: string, match: RegExpExecArray | RegExpMatchArray) =>
  `${text.slice(0, match.index)} ${text.slice((match.index ?? 0) + match[0].length)}`;

/** Two digits are of 1950 to 2049, also after zeros; three count from 1900, as programs did that were not ready for 2000 (4.3). */
function yearOf(digits: string | undefined): number | undefined {
  if (digits === undefined) return undefined;
  const year = Number(digits);
  if (year < 100) return year + (year < 50 ? 2000 : 1900);
  return digits.length === 3 ? year + 1900 : year;
}

function findDay(text: string): Day | undefined {
  const first = numbersFirst.exec(text) ?? compact.exec(text);
  if (first)
    return { year: Number(first[1]), month: Number(first[2]), day: Number(first[3]), rest: without(text, first) };
  const orders = [
    [dayMonth, 1, 2],
    [monthDay, 2, 1],
  ] as const;
  for (const [pattern, day, name] of orders) {
    for (const match of text.matchAll(pattern)) {
      const month = monthOf(match[name] as string);
      if (month) return { year: yearOf(match[3]), month, day: Number(match[day]), rest: without(text, match) };
    }
  }
  const east = chinese.exec(text);
  if (east) return { year: Number(east[3]), month: Number(east[2]), day: Number(east[1]), rest: without(text, east) };
  const last = numbersLast.exec(text);
  if (!last) return undefined;
  const [a, b] = [Number(last[1]), Number(last[3])];
  // 6/1/2023 is American, 1.6.2023 and 1-6-2023 are not, and nobody's month is 13.
  const isAmerican = b > 12 || (last[2] === "/" && a <= 12);
  return { year: yearOf(last[4]), month: isAmerican ? a : b, day: isAmerican ? b : a, rest: without(text, last) };
}

const clock = /(?<!\d)(\d{1,2})\s?(?:[:h时時시]|点)\s?(\d{2})(?:\s?[:分분m]\s?(\d{2})(?:[.,]\d+)?)?(?!\d)/;
const clockOfDots = /(?<![\d.])(\d{1,2})\.(\d{2})(?:\.(\d{2}))?(?![\d.])/;
const compactClock = /T(\d\d)(\d\d)(\d\d)?(?!\d)/;
const offset = /([+\-\u2212])(\d{1,2})(?::?(\d{2}))?(?!\d)/;
const zoneName = /(?<!\p{L})[a-z]{1,5}(?!\p{L})/giu;

/** Minutes after UTC. */
function findOffset(text: string): number {
  const numeric = offset.exec(text);
  if (numeric) {
    const [hours, minutes] = [Number(numeric[2]), Number(numeric[3] ?? 0)];
    // No place on earth is further off; the digits mean something else, or nothing.
    return hours > 15 || minutes > 59 ? 0 : (numeric[1] === "+" ? 1 : -1) * (hours * 60 + minutes);
  }
  for (const [name] of text.matchAll(zoneName)) {
    const hours = zones[name.toLowerCase()];
    if (hours !== undefined) return hours * 60;
  }
  return 0;
}

/** Hours of the day, given the text around. */
function hourOf(hour: number, text: string): number {
  const isLate = /(?<!\p{L})p\.?m\b|下午|晚上|午後|오후/iu.test(text);
  const isEarly = /(?<!\p{L})a\.?m\b|上午|午前|오전|凌晨/iu.test(text);
  return (isLate || isEarly) && hour <= 12 ? (hour % 12) + (isLate ? 12 : 0) : hour;
}

function withoutComments(text: string): string {
  for (let before = text; ; ) {
    const after = before.replace(/\([^()]*\)/g, " ");
    if (after === before) return after;
    before = after;
  }
}

/** Undefined when there is no such day or time. */
function moment(year: number, month: number, day: number, hour: number, minute: number, second: number, zone: number) {
  // A leap second, and midnight at the end of a day, are there.
  if (hour > 24 || minute > 59 || second > 60 || (hour === 24 && minute + second > 0)) return undefined;
  const midnight = new Date(Date.UTC(year, month - 1, day));
  if (midnight.getUTCDate() !== day || midnight.getUTCMonth() !== month - 1) return undefined;
  return storedDate(midnight.getTime() + ((hour * 60 + minute - zone) * 60 + second) * 1000);
}

/** The form of nearly all mail, read in a tenth of the time. */
const usual =
  /^(?:[a-z]{3}, )?(\d{1,2}) ([a-z]{3}) ([12]\d{3}) (\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)(?: \([a-z]+\))?$/i;

/** Parses a Date header, or a date in JSON. Without a time zone it is UTC. Undefined if invalid. */
export function readDate(text: string): string | undefined {
  const [, d, name = "", y, h, m, s, sign, zoneHours, zoneMinutes] = usual.exec(text) ?? [];
  const month = monthOf(name);
  if (month > 0) {
    const zone = (sign === "-" ? -1 : 1) * (Number(zoneHours) * 60 + Number(zoneMinutes));
    if (Math.abs(zone) < 16 * 60) return moment(Number(y), month, Number(d), Number(h), Number(m), Number(s), zone);
  }
  if (text.length > MAX_CHARACTERS) return undefined;
  const bare = withoutComments(text.normalize("NFKC")).trim();
  // Seconds or milliseconds since 1970.
  if (/^\d{9,10}$|^\d{12,13}$/.test(bare)) return storedDate(Number(bare) * (bare.length < 11 ? 1000 : 1));
  const found = findDay(bare);
  if (!found) return undefined;
  const { day, rest } = found;
  const time = clock.exec(rest) ?? compactClock.exec(rest) ?? clockOfDots.exec(rest);
  const [hour, minute, second] = [hourOf(Number(time?.[1] ?? 0), rest), Number(time?.[2] ?? 0), Number(time?.[3] ?? 0)];
  const after = time ? rest.slice(time.index + time[0].length) : "";
  const year = found.year ?? yearOf(/(?<![\d+:-])\d{4}(?!\d)/.exec(after)?.[0]);
  return year === undefined ? undefined : moment(year, found.month, day, hour, minute, second, findOffset(after));
}

/** The newest date in the Received headers; every server puts its own before those of others. */
export function dateReceived(received: readonly string[] = []): string | undefined {
  for (const value of received) {
    const date = readDate(value.slice(value.lastIndexOf(";") + 1));
    if (date !== undefined) return date;
  }
  return undefined;
}
