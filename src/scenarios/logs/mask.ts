/**
 * Replaces personal data that has a form: addresses of mail, telephone, card and account numbers, network addresses, keys. The
 * same text gets the same placeholder everywhere, so that questions still fit their answers. Names have no form: they are given.
 */
import type { ChatMessage, ToolSchema } from "../../core/task/task.js";
import { folded } from "./fold.js";

export const MASKED = ["email", "phone", "card", "iban", "ip", "key"] as const;
export type Masked = (typeof MASKED)[number];

type Range = readonly [from: number, to: number];
type Find = (text: string) => Iterable<Range>;

/** ISO/IEC 7812-1: lengths and first digits of cards in use; annex B: the sum of digits. */
const CARD = /^(?:4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3\d{13,18}|(?:50|5[6-9]|6\d)\d{10,17}|1\d{14})$/;

function isCard(number: string): boolean {
  if (!CARD.test(number)) return false;
  const sum = [...number].reverse().reduce((total, digit, i) => {
    const value = Number(digit) * (i % 2 === 1 ? 2 : 1);
    return total + (value > 9 ? value - 9 : value);
  }, 0);
  return sum % 10 === 0;
}

/** ISO 13616: the remainder of 97 is 1. */
function isIban(given: string): boolean {
  const compact = given.toUpperCase();
  const moved = (compact.slice(4) + compact.slice(0, 4)).replace(/[A-Z]/g, (letter) =>
    String(letter.charCodeAt(0) - 55),
  );
  let rest = 0;
  for (const digit of moved) rest = (rest * 10 + Number(digit)) % 97;
  return rest === 1;
}

function isPhone(text: string): boolean {
  const { length } = text.replace(/\D/g, "");
  return length >= 8 && length <= 15;
}

/** No repeated part of a pattern is searched from each of its own signs: time would grow with the square of a text's length. */
const matches = (pattern: RegExp, is: (found: string) => boolean = () => true): Find =>
  function* (text) {
    for (const { index, 0: found } of text.matchAll(pattern)) if (is(found)) yield [index, index + found.length];
  };

const isDigit = (code: number) => code >= 48 && code <= 57;
const isAlphanumeric = (code: number) => isDigit(code) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
/** A space, a dash, a point. */
const separates = (code: number) => code === 32 || code === 45 || code === 46;

/** Numbers in groups, with one sign between them. Others may follow: it ends where a group does, and is the longest that is one. */
const grouped = (
  begin: RegExp,
  belongs: (code: number) => boolean,
  [least, most]: Range,
  is: (number: string) => boolean,
): Find =>
  function* (text) {
    let after = 0;
    for (const { index } of text.matchAll(begin)) {
      if (index < after) continue;
      const ends: number[] = [];
      let length = 0;
      let at = index;
      for (; length <= most; at++) {
        const code = text.charCodeAt(at);
        if (belongs(code)) {
          length++;
          continue;
        }
        if (length >= least && !isAlphanumeric(code)) ends.unshift(at);
        if (!separates(code) || !belongs(text.charCodeAt(at + 1))) break;
      }
      const end = ends.find((end) => is(text.slice(index, end).replace(/[ .-]/g, "")));
      if (end === undefined) continue;
      after = end;
      yield [index, after];
    }
  };

const LOCAL = /[\p{L}\p{N}\p{M}._%+'-]/u;
const DOMAIN = /[\p{L}\p{N}\p{M}-]+(?:\.[\p{L}\p{N}\p{M}-]+)+/uy;

function* emails(text: string): Iterable<Range> {
  let after = 0;
  for (let at = text.indexOf("@"); at >= 0; at = text.indexOf("@", at + 1)) {
    let from = at;
    while (from > after) {
      const pair = /[\udc00-\udfff]/.test(text.charAt(from - 1)) ? 2 : 1;
      if (!LOCAL.test(text.slice(from - pair, from))) break;
      from -= pair;
    }
    DOMAIN.lastIndex = at + 1;
    const [domain] = DOMAIN.exec(text) ?? [];
    after = at + 1 + (domain?.length ?? 0);
    if (from < at && domain !== undefined) yield [from, after];
  }
}

const PEM = /-----(BEGIN|END) [A-Z0-9 ]{1,64}-----/g;
const REST_OF_PEM = /[A-Za-z0-9+/=\s\\]*/y;

/** Also one whose end is missing. */
function* pems(text: string): Iterable<Range> {
  let from: number | undefined;
  let after = 0;
  for (const { index, 0: line, 1: side } of text.matchAll(PEM)) {
    after = index + line.length;
    if (side === "BEGIN") from ??= index;
    else if (from !== undefined) {
      yield [from, after];
      from = undefined;
    }
  }
  if (from === undefined) return;
  REST_OF_PEM.lastIndex = after;
  yield [from, after + (REST_OF_PEM.exec(text)?.[0].length ?? 0)];
}

/** In this order: an account's digits must not be taken for a telephone number. */
const forms: readonly { readonly what: Masked; readonly find: Find }[] = [
  { what: "key", find: pems },
  // A token of JSON: its header begins with {".
  { what: "key", find: matches(/(?<![\w-])eyJ[\w-]{10,}(?:\.{1,2}[\w-]+)*/g) },
  {
    what: "key",
    find: matches(
      /(?<![\w-])(?:(?:sk|pk|rk|gh[oprsu]|github_pat|glpat|npm|pypi|xox[a-z]|xapp|hf)[-_][\w-]{16,}|A[KS]IA[A-Z0-9]{16,}|AIza[\w-]{30,}|GOCSPX-[\w-]{20,}|ya29\.[\w.-]{20,}|SG\.[\w.-]{32,})/g,
    ),
  },
  { what: "email", find: emails },
  {
    what: "iban",
    find: grouped(/(?<![A-Za-z0-9])[A-Z]{2}\d{2}/gi, isAlphanumeric, [15, 34], isIban),
  },
  { what: "card", find: grouped(/(?<![A-Za-z0-9])\d/g, isDigit, [12, 19], isCard) },
  { what: "ip", find: matches(/\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b/g) },
  {
    what: "ip",
    find: matches(
      /(?<![\w:])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}\b|(?<![\w:])(?:[0-9a-f]{1,4}:){1,6}:(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*)?/gi,
    ),
  },
  // With a plus, a bracket or separators: a plain number may be anything. A date has fewer digits in its parts.
  {
    what: "phone",
    find: matches(
      /(?<![\w.])(?:\+\d{1,3}[ ./-]?(?:\(0\)[ ]?)?|\(\d{2,5}\)[ ]?|\b\d{3,5}[ ./-](?=\d{3}))\d{2,5}(?:[ ./-]?\d{2,5}){1,4}\b/g,
      isPhone,
    ),
  },
];

const GROUPED: ReadonlySet<string> = new Set(["iban", "card", "phone"] satisfies Masked[]);

/** What has no form by which it could be found, or none that is looked for. */
export const NOT_MASKED =
  "names (--mask-words), postal addresses, dates, user names, passwords and keys of other forms, other encodings (base64, HTML), images";

export class Mask {
  readonly #what: ReadonlySet<Masked>;
  readonly #words: RegExp | undefined;
  readonly #placeholders = new Map<string, string>();
  readonly #numbers = new Map<string, number>();

  /** @param words given ones, of people or places, in any case */
  constructor(what: readonly Masked[], words: readonly string[] = []) {
    this.#what = new Set(what);
    const escaped = [...words]
      .filter((word) => word.trim() !== "")
      .sort((a, b) => b.length - a.length)
      .map((word) =>
        folded(word.trim())
          .text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
          .replace(/\s+/g, "\\s+"),
      );
    this.#words =
      escaped.length > 0
        ? new RegExp(`(?<![\\p{L}\\p{N}])(?:${escaped.join("|")})(?![\\p{L}\\p{N}])`, "giu")
        : undefined;
  }

  /** Different texts that were replaced, by kind. */
  get counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#numbers);
  }

  text(given: string): string {
    const { text, from } = folded(given);
    const found: { readonly range: Range; readonly placeholder: string }[] = [];
    let left = text;
    const take = (what: string, ranges: Iterable<Range>) => {
      const parts: string[] = [];
      let end = 0;
      for (const range of ranges) {
        const [first, after] = range;
        found.push({ range, placeholder: this.#for(what, left.slice(first, after)) });
        // Nothing else is found there, nor across it.
        parts.push(left.slice(end, first), "\0".repeat(after - first));
        end = after;
      }
      if (end > 0) left = parts.join("") + left.slice(end);
    };
    for (const { what, find } of forms) if (this.#what.has(what)) take(what, find(left));
    if (this.#words) take("name", matches(this.#words)(left));
    if (found.length === 0) return given;
    const parts: string[] = [];
    let end = 0;
    for (const { range, placeholder } of found.sort((a, b) => a.range[0] - b.range[0])) {
      parts.push(given.slice(end, from(range[0])), placeholder);
      end = from(range[1]);
    }
    return parts.join("") + given.slice(end);
  }

  /** All texts of a value, and names of its fields; whole numbers too, which may be a card's. */
  value(given: unknown): unknown {
    if (typeof given === "string") return this.text(given);
    if (typeof given === "bigint" || Number.isSafeInteger(given)) {
      const [before, after] = [String(given), this.text(String(given))];
      return before === after ? given : after;
    }
    if (Array.isArray(given)) return given.map((one) => this.value(one));
    if (typeof given !== "object" || given === null) return given;
    const masked = new Map<string, unknown>();
    for (const [key, one] of Object.entries(given)) {
      let name = this.text(key);
      while (masked.has(name)) name += "'";
      masked.set(name, this.value(one));
    }
    return Object.fromEntries(masked);
  }

  /** The tool as the model reads it, but for its name. */
  tool({ type, function: { name, description, parameters } }: ToolSchema): ToolSchema {
    const masked = this.value(parameters) as Record<string, unknown>;
    return { type, function: { name, description: this.text(description), parameters: masked } };
  }

  message(message: ChatMessage): ChatMessage {
    const content = this.text(message.content);
    if (message.role !== "assistant" || !message.tool_calls) return { ...message, content };
    const calls = message.tool_calls.map((call) => ({
      ...call,
      arguments: this.value(call.arguments) as Record<string, unknown>,
    }));
    return { ...message, content, tool_calls: calls };
  }

  #for(kind: string, found: string): string {
    // One number is written in several ways, and so is the space in a name.
    const written = GROUPED.has(kind) ? found.replace(/[\s./()-]/g, "") : found.replace(/\s+/g, " ");
    const key = `${kind} ${written.toLowerCase()}`;
    const known = this.#placeholders.get(key);
    if (known !== undefined) return known;
    const number = (this.#numbers.get(kind) ?? 0) + 1;
    this.#numbers.set(kind, number);
    const placeholder = `[${kind} ${number}]`;
    this.#placeholders.set(key, placeholder);
    return placeholder;
  }
}
