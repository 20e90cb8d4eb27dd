/** Python's literals that are JSON data too: texts, numbers, `True`, `False`, `None`, lists and dictionaries. Nothing is evaluated. */

/** Python's literals alone, or JSON's `true`, `false` and `null` too, and texts in single quotes with line breaks. */
export type Dialect = "python" | "json too";

/** A text that is no such literal; the message is worded for the model. */
export class NoLiteral extends Error {}

/** Python's identifiers, as a part of a pattern with the flag u. https://docs.python.org/3/reference/lexical_analysis.html */
export const IDENTIFIER = "[_\\p{XIDS}][\\p{XIDC}]*";

const SPACE = /\s*/y;
const NUMBER = /[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])/y;
const WORD = new RegExp(IDENTIFIER, "uy");
const TEXT = /([rRuU]?)('''|"""|'|")/y;
const CONSTANTS = new Map<string, unknown>([
  ["True", true],
  ["False", false],
  ["None", null],
]);
const JSON_WORDS = new Map<string, unknown>([
  ["true", true],
  ["false", false],
  ["null", null],
]);
const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|([\s\S]))/g;
const ESCAPED: Readonly<Record<string, string>> = {
  n: "\n",
  t: "\t",
  r: "\r",
  a: "\x07",
  b: "\b",
  f: "\f",
  v: "\v",
  "\n": "",
  "\\": "\\",
  "'": "'",
  '"': '"',
};

function unescaped(text: string): string {
  return text.replace(ESCAPE, (all, x?: string, u?: string, long?: string, octal?: string, one?: string) => {
    if (one !== undefined) {
      if (/[xuUN]/.test(one)) throw new NoLiteral(`${all} in a text is no escape`);
      return ESCAPED[one] ?? all;
    }
    const code = octal === undefined ? Number.parseInt((x ?? u ?? long) as string, 16) : Number.parseInt(octal, 8);
    if (code > 0x10ffff) throw new NoLiteral(`${all} in a text is no character`);
    return String.fromCodePoint(code);
  });
}

/** Index behind the text in quotes that opens at `from`; -1 where it does not end. */
function quotedEnd(text: string, from: number, quote: string, dialect: Dialect): number {
  for (let i = from + quote.length; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text.startsWith(quote, i)) return i + quote.length;
    else if (text[i] === "\n" && quote.length === 1 && dialect === "python") return -1;
  }
  return -1;
}

/** Reads a text from a position on. */
export class Literals {
  constructor(
    readonly text: string,
    public at: number,
    readonly dialect: Dialect = "python",
  ) {}

  /** What matches here, behind white space, and is passed. @param pattern sticky */
  take(pattern: RegExp): RegExpExecArray | null {
    SPACE.lastIndex = this.at;
    SPACE.exec(this.text);
    pattern.lastIndex = SPACE.lastIndex;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  /** Whether these characters stand here, behind white space; they are passed. */
  takes(characters: string): boolean {
    this.take(SPACE);
    const there = this.text.startsWith(characters, this.at);
    if (there) this.at += characters.length;
    return there;
  }

  value(): unknown {
    if (this.takes("[")) return this.#items("]", () => this.value());
    if (this.takes("{")) return Object.fromEntries(this.#items("}", () => this.#pair()));
    const number = this.take(NUMBER)?.[0];
    if (number !== undefined) return this.#number(number);
    const [, prefix, quote] = this.take(TEXT) ?? [];
    if (quote !== undefined) return this.#quoted(quote, prefix as string);
    const word = this.take(WORD)?.[0];
    if (word !== undefined && CONSTANTS.has(word)) return CONSTANTS.get(word);
    if (word !== undefined && this.dialect === "json too" && JSON_WORDS.has(word)) return JSON_WORDS.get(word);
    const here = word ?? this.text[this.at];
    throw new NoLiteral(here === undefined ? "the tool call does not end" : `${here} begins no Python literal`);
  }

  #items<Item>(close: string, item: () => Item): Item[] {
    const items: Item[] = [];
    while (!this.takes(close)) {
      if (items.length > 0 && !this.takes(",")) throw new NoLiteral(`no , or ${close} follows a value`);
      if (items.length > 0 && this.takes(close)) break;
      items.push(item());
    }
    return items;
  }

  #pair(): [string, unknown] {
    const key = this.value();
    if (typeof key !== "string") throw new NoLiteral("a key of a dictionary is no text");
    if (!this.takes(":")) throw new NoLiteral("no : follows a key");
    return [key, this.value()];
  }

  #number(text: string): unknown {
    if (/^[+-]?0\d/.test(text) && !/[.eE]/.test(text)) throw new NoLiteral(`${text} is no Python literal`);
    const value = Number(text);
    if (!Number.isFinite(value)) throw new NoLiteral(`${text} is no finite number`);
    return /[.eE]/.test(text) || Number.isSafeInteger(value) ? value : BigInt(text.replace("+", ""));
  }

  #quoted(quote: string, prefix: string): string {
    const end = quotedEnd(this.text, this.at - quote.length, quote, this.dialect);
    if (end < 0) throw new NoLiteral("a text does not end");
    const inner = this.text.slice(this.at, end - quote.length);
    this.at = end;
    return /r/i.test(prefix) ? inner : unescaped(inner);
  }
}

/** Index behind the bracket that closes the one at `from`; -1 where it is not closed. */
export function closedAt(text: string, from: number, dialect: Dialect = "python"): number {
  let depth = 0;
  for (let i = from; i < text.length; i++) {
    const character = text[i] as string;
    if (character === "'" || character === '"') {
      const quote = text.startsWith(character.repeat(3), i) ? character.repeat(3) : character;
      const end = quotedEnd(text, i, quote, dialect);
      if (end < 0) return -1;
      i = end - 1;
    } else if ("([{".includes(character)) depth++;
    else if (")]}".includes(character) && --depth === 0) return i + 1;
  }
  return -1;
}

/** A value as Python writes it. */
export function writtenLiteral(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(writtenLiteral).join(", ")}]`;
  if (typeof value !== "object") return typeof value === "string" ? JSON.stringify(value) : String(value);
  const pairs = Object.entries(value).filter(([, one]) => one !== undefined);
  return `{${pairs.map(([key, one]) => `${JSON.stringify(key)}: ${writtenLiteral(one)}`).join(", ")}}`;
}
