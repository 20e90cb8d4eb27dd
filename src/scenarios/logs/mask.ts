/**
 * Replaces personal data that has a form: addresses of mail, telephone, card and account numbers, network addresses, keys. The
 * same text gets the same placeholder everywhere, so that questions still fit their answers. Names have no form: they are given.
 */
import type { ChatMessage } from "../../tasks/index.js";

export const MASKED = ["email", "phone", "card", "iban", "ip", "key"] as const;
export type Masked = (typeof MASKED)[number];

const digits = (text: string) => text.replace(/\D/g, "");

/** ISO/IEC 7812-1, annex B. */
function isCard(text: string): boolean {
  const number = digits(text);
  if (number.length < 13 || number.length > 19) return false;
  const sum = [...number].reverse().reduce((total, digit, i) => {
    const value = Number(digit) * (i % 2 === 1 ? 2 : 1);
    return total + (value > 9 ? value - 9 : value);
  }, 0);
  return sum % 10 === 0;
}

/** ISO 13616: the remainder of 97 is 1. */
function isIban(text: string): boolean {
  const compact = text.replace(/\s/g, "");
  const moved = (compact.slice(4) + compact.slice(0, 4)).replace(/[A-Z]/g, (letter) =>
    String(letter.charCodeAt(0) - 55),
  );
  let rest = 0;
  for (const digit of moved) rest = (rest * 10 + Number(digit)) % 97;
  return rest === 1;
}

const isPhone = (text: string) => digits(text).length >= 8 && digits(text).length <= 15;

/** In this order: an account's digits must not be taken for a telephone number. */
const forms: readonly { readonly what: Masked; readonly pattern: RegExp; readonly is?: (text: string) => boolean }[] = [
  { what: "key", pattern: /\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|xox[abps]|AKIA|hf)[-_]?[A-Za-z0-9_-]{16,}\b/g },
  { what: "email", pattern: /[\p{L}\p{N}._%+'-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+/gu },
  { what: "iban", pattern: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b/g, is: isIban },
  { what: "card", pattern: /\b\d(?:[ -]?\d){12,18}\b/g, is: isCard },
  { what: "ip", pattern: /\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b/g },
  {
    what: "ip",
    pattern:
      /(?<![\w:])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}\b|(?<![\w:])(?:[0-9a-f]{1,4}:){1,6}:(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*)?/gi,
  },
  // With a plus, a bracket or separators: a plain number may be anything. A date has fewer digits in its parts.
  {
    what: "phone",
    pattern:
      /(?<![\w.])(?:\+\d{1,3}[ ./-]?(?:\(0\)[ ]?)?|\(\d{2,5}\)[ ]?|\b\d{3,5}[ ./-](?=\d{3}))\d{2,5}(?:[ ./-]?\d{2,5}){1,4}\b/g,
    is: isPhone,
  },
];

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
        word
          .trim()
          .replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
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
    let text = given;
    for (const { what, pattern, is } of forms) {
      if (this.#what.has(what))
        text = text.replace(pattern, (found) => (is && !is(found) ? found : this.#for(what, found)));
    }
    return this.#words ? text.replace(this.#words, (found) => this.#for("name", found.replace(/\s+/g, " "))) : text;
  }

  /** All texts of a value, not the names of its fields. */
  value(given: unknown): unknown {
    if (typeof given === "string") return this.text(given);
    if (Array.isArray(given)) return given.map((one) => this.value(one));
    if (typeof given !== "object" || given === null) return given;
    return Object.fromEntries(Object.entries(given).map(([key, one]) => [key, this.value(one)]));
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
    const key = `${kind} ${found.toLowerCase()}`;
    const known = this.#placeholders.get(key);
    if (known !== undefined) return known;
    const number = (this.#numbers.get(kind) ?? 0) + 1;
    this.#numbers.set(kind, number);
    const placeholder = `[${kind} ${number}]`;
    this.#placeholders.set(key, placeholder);
    return placeholder;
  }
}
