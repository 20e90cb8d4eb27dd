/**
 * Replaces personal data that has a form: addresses of mail, telephone, card and account numbers, network addresses, keys. The
 * same text gets the same placeholder everywhere, so that questions still fit their answers. Names have no form: they are given.
 */
import type { ChatMessage, ToolSchema } from "../../core/task/task.js";
import { folded, replaced } from "./fold.js";

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
  if (given.length < 15) return false;
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

/**
 * Numbers in groups, with one sign between them. Others may follow: it ends where a group does, and is the longest that is one.
 * @param pattern looks ahead for as many signs as there may be
 */
const grouped = (pattern: RegExp, is: (number: string) => boolean): Find =>
  function* (text) {
    let after = 0;
    for (const { index, 1: longest = "" } of text.matchAll(pattern)) {
      if (index < after) continue;
      const ends = Array.from(longest, (_, i) => index + longest.length - i);
      const end = ends.find(
        (at) => !/^[A-Za-z0-9]/.test(text.slice(at, at + 1)) && is(text.slice(index, at).replace(/[ .-]/g, "")),
      );
      if (end === undefined) continue;
      yield [index, end];
      after = end;
    }
  };

/** In this order: an account's digits must not be taken for a telephone number. */
const forms: readonly { readonly what: Masked; readonly find: Find }[] = [
  // Also one whose end is missing.
  {
    what: "key",
    find: matches(
      /-----BEGIN [A-Z0-9 ]{1,64}-----(?:[^-]*(?:-(?!----)[^-]*)*-----END [A-Z0-9 ]{1,64}-----|[A-Za-z0-9+/=\s\\]*)/g,
    ),
  },
  // A token of JSON: its header begins with {".
  { what: "key", find: matches(/(?<![\w-])eyJ[\w-]{10,}(?:\.{1,2}[\w-]+)*/g) },
  {
    what: "key",
    find: matches(
      /(?<![\w-])(?:(?:sk|pk|rk|gh[oprsu]|github_pat|glpat|npm|pypi|xox[a-z]|xapp|hf)[-_][\w-]{16,}|A[KS]IA[A-Z0-9]{16,}|AIza[\w-]{30,}|GOCSPX-[\w-]{20,}|ya29\.[\w.-]{20,}|SG\.[\w.-]{32,})/g,
    ),
  },
  // Each run of an address's signs as a whole, whether one follows or not.
  {
    what: "email",
    find: matches(/[\p{L}\p{N}\p{M}._%+'-]+(?:@[\p{L}\p{N}\p{M}-]+(?:\.[\p{L}\p{N}\p{M}-]+)+)?/gu, (found) =>
      found.includes("@"),
    ),
  },
  { what: "iban", find: grouped(/(?<![A-Z0-9])(?=([A-Z]{2}\d{2}(?:[ .-]?[A-Z0-9]){11,30}))/gi, isIban) },
  { what: "card", find: grouped(/(?<![A-Z0-9])(?=(\d(?:[ .-]?\d){11,18}))/gi, isCard) },
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
  readonly #forms: readonly { readonly what: string; readonly find: Find }[];
  readonly #placeholders = new Map<string, string>();
  readonly #numbers = new Map<string, number>();

  /** @param words given ones, of people or places, in any case */
  constructor(what: readonly Masked[], words: readonly string[] = []) {
    const escaped = [...words]
      .filter((word) => word.trim() !== "")
      .sort((a, b) => b.length - a.length)
      .map((word) =>
        folded(word.trim())
          .text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
          .replace(/\s+/g, "\\s+"),
      );
    const names = new RegExp(`(?<![\\p{L}\\p{N}])(?:${escaped.join("|")})(?![\\p{L}\\p{N}])`, "giu");
    this.#forms = [
      ...forms.filter((form) => what.includes(form.what)),
      ...(escaped.length > 0 ? [{ what: "name", find: matches(names) }] : []),
    ];
  }

  /** Different texts that were replaced, by kind. */
  get counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#numbers);
  }

  text(given: string): string {
    const { text, from } = folded(given);
    let left = text;
    const found = this.#forms.flatMap(({ what, find }) => {
      const ranges = [...find(left)];
      const placeholders = ranges.map((range) => this.#for(what, left.slice(...range)));
      // Nothing else is found there, nor across it.
      left = replaced(
        left,
        ranges.map(([first, after]) => ({ first, after, by: "\0".repeat(after - first) })),
      );
      return ranges.map(([first, after], i) => ({
        first: from(first),
        after: from(after),
        by: placeholders[i] as string,
      }));
    });
    return replaced(
      given,
      found.sort((a, b) => a.first - b.first),
    );
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
