/**
 * JSON with exact integers: those beyond 2^53 - 1, which a number would round, are read as bigints, and bigints are
 * written as digits. In Node 20 neither `JSON.parse` nor `JSON.stringify` lets a program do so; there each such integer
 * passes through them as a text that begins with a mark.
 */
import { randomUUID } from "node:crypto";

/** Not to be guessed, so that no other text begins with it. */
const MARK = `${randomUUID()}:`;
/** As few digits as an integer beyond 2^53 - 1 has: texts without so many are read as usual. */
const LONG = /(?<![\d.])\d{16}/;
/** Python's own limit: the time to read an integer grows with the square of its digits. */
const MOST_DIGITS = 4300;
/** An integer outside of texts, neither the fraction nor the exponent of another number. */
const INTEGER = /(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;
const WRITTEN = new RegExp(`"${MARK}(-?\\d+)"`, "g");

function isUnsafe(digits: string): boolean {
  if (digits.length > MOST_DIGITS) throw new SyntaxError(`an integer has more than ${MOST_DIGITS} digits`);
  return !Number.isSafeInteger(Number(digits));
}

/** Index of the quote that ends the text after `from`, in valid JSON. */
function endOfText(json: string, from: number): number {
  for (let at = json.indexOf('"', from); ; at = json.indexOf('"', at + 1)) {
    let escapes = 0;
    while (json[at - 1 - escapes] === "\\") escapes++;
    if (escapes % 2 === 0) return at;
  }
}

/** Valid JSON with a mark and quotes around each integer that a number would round. */
function marked(json: string): string {
  const parts: string[] = [];
  for (let at = 0; at < json.length; ) {
    const quote = json.indexOf('"', at);
    const between = json.slice(at, quote < 0 ? undefined : quote);
    parts.push(between.replace(INTEGER, (digits) => (isUnsafe(digits) ? `"${MARK}${digits}"` : digits)));
    if (quote < 0) break;
    at = endOfText(json, quote + 1) + 1;
    parts.push(json.slice(quote, at));
  }
  return parts.join("");
}

/**
 * As `JSON.parse`, with integers beyond 2^53 - 1 as bigints.
 *
 * @throws SyntaxError, and RangeError where such an integer is thousands of levels deep
 */
export function parseJson(json: string): unknown {
  const value: unknown = JSON.parse(json);
  if (!LONG.test(json)) return value;
  const exact = marked(json);
  // Both have been checked: the first for its form, the second differs from it in whole values.
  const read = (_: string, item: unknown) =>
    typeof item === "string" && item.startsWith(MARK) ? BigInt(item.slice(MARK.length)) : item;
  return exact === json ? value : JSON.parse(exact, read);
}

const digitsOf = (_: string, item: unknown) => (typeof item === "bigint" ? `${MARK}${item}` : item);

/** As `JSON.stringify`, with bigints as their digits. */
export function toJson(value: unknown, indent?: number): string {
  try {
    return JSON.stringify(value, undefined, indent);
  } catch (error) {
    // A bigint has no error of its own; a circle fails again below.
    if (!(error instanceof TypeError)) throw error;
    return withDigits(JSON.stringify(value, digitsOf, indent));
  }
}

/** A copy of JSON data with each bigint replaced; the same value where it has none. */
export function mapBigints<T>(value: T, replaced: (integer: bigint) => unknown): T {
  if (typeof value === "bigint") return replaced(value) as T;
  if (typeof value !== "object" || value === null || !hasBigint(value)) return value;
  if (Array.isArray(value)) return value.map((item) => mapBigints(item, replaced)) as T;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapBigints(item, replaced)])) as T;
}

export function hasBigint(value: unknown): boolean {
  if (typeof value === "bigint") return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasBigint);
}

/** JSON data that another library's `JSON.stringify` takes; {@link withDigits} then restores the bigints in its text. */
export const withMarks = <T>(value: T): T => mapBigints(value, (integer) => `${MARK}${integer}`);

export const withDigits = (json: string): string => json.replace(WRITTEN, "$1");

/** A copy as deep as lists and plain objects go; what else is in it is the same. */
export function copied<T>(value: T): T {
  if (Array.isArray(value)) return value.map(copied) as T;
  if (typeof value !== "object" || value === null) return value;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, copied(one)])) as T;
}

/** A value as it is typed, or as a cell has it: JSON where the text is JSON, whose numbers are JavaScript's. */
export function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Text needs no quotation marks.
    return text;
  }
}

/** What a path of own fields leads to; undefined where that is nothing. */
export function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  const within = (at: unknown, step: PropertyKey) =>
    typeof at === "object" && at !== null && Object.hasOwn(at, step) ? Reflect.get(at, step) : undefined;
  return path.reduce<unknown>(within, root);
}
