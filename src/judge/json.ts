/**
 * Finds the one JSON object in a judge's answer: models without a schema write their thoughts, code fences and text around
 * it.
 */
import type { z } from "zod";
import { NoVerdict } from "./no-verdict.js";

/** Levels of lists and objects at most; a verdict has three. */
const MOST_LEVELS = 100;

/**
 * Where thoughts begin and end that a server has left in the text, in models' own tags. They may contain drafts of the answer.
 * The channels are those of gpt-oss.
 */
const NAMES = "(?:[a-z]+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad)";
const OPENING = `<${NAMES}>|\\[THINK\\]|◁think▷|<unused94>|<\\|(?:begin_of_thought|START_THINKING|thinking)\\|>|<\\|channel\\|>(?:analysis|commentary)`;
const CLOSING = `</${NAMES}>|\\[/THINK\\]|◁/think▷|<unused95>|<\\|(?:end_of_thought|END_THINKING|/thinking)\\|>|<\\|channel\\|>final`;
/** Both, and all that an object can begin with. */
const MARK = `(?<open>${OPENING})|(?<close>${CLOSING})|\\{(?=\\s*["}])`;

/**
 * The objects of a text that are no part of thoughts. Tags inside an object are text that it quotes. Thoughts begin with their first
 * tag and end with the next closing one, whatever they quote; before a closing tag alone all is thoughts, since some templates open
 * them in the prompt. What is opened and never closed are no thoughts.
 */
function objectsIn(text: string): Record<string, unknown>[] {
  let said: Record<string, unknown>[] = [];
  let thought: Record<string, unknown>[] | undefined;
  const mark = new RegExp(MARK, "gi");
  for (let found = mark.exec(text); found; found = mark.exec(text)) {
    if (found.groups?.open) thought ??= [];
    else if (found.groups?.close) {
      if (!thought) said = [];
      thought = undefined;
    } else {
      const { object, end } = new Reader(text, found.index).object();
      if (object) (thought ?? said).push(object);
      if (end !== undefined) mark.lastIndex = end;
    }
  }
  return [...said, ...(thought ?? [])];
}

/** The text of an answer that was cut off, without thoughts that it never closed: those may have drafts of what it would say. */
export function withoutOpenThoughts(text: string): string {
  const mark = new RegExp(`(?<open>${OPENING})|(?<close>${CLOSING})`, "gi");
  let open: number | undefined;
  for (const { index, groups } of text.matchAll(mark)) {
    if (groups?.open) open ??= index;
    else open = undefined;
  }
  return text.slice(0, open);
}

/** Made once: a stack for each would take most of the time. */
const NOT_JSON = new Error("no JSON");
const TOO_DEEP = new Error("too many levels");

const STRING = /[^"\\]*(?:\\[\s\S][^"\\]*)*"/y;
const LITERAL = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const SPACE = /\s*/y;

/**
 * Reads JSON that begins somewhere in a text and ends somewhere. Line breaks in texts, escapes that JSON has not (`\(`), and a comma
 * before a closing bracket are read as they are meant: they leave no doubt.
 */
class Reader {
  readonly #text: string;
  readonly #start: number;
  #at: number;

  constructor(text: string, start: number) {
    this.#text = text;
    this.#start = start;
    this.#at = start;
  }

  /** `end`: where to go on reading, also behind an object in more levels than a verdict can have; undefined where none begins. */
  object(): { object?: Record<string, unknown>; end?: number } {
    try {
      return { object: this.#value(0) as Record<string, unknown>, end: this.#at };
    } catch (error) {
      if (error === NOT_JSON) return {};
      if (error === TOO_DEEP) return { end: this.#behind() };
      throw error;
    }
  }

  /** Behind the object at the start, by its brackets alone. */
  #behind(): number {
    let levels = 0;
    for (let i = this.#start; i < this.#text.length; i++) {
      const char = this.#text[i];
      if (char === '"') {
        STRING.lastIndex = i + 1;
        if (!STRING.test(this.#text)) break;
        i = STRING.lastIndex - 1;
      } else if (char === "{" || char === "[") levels++;
      else if ((char === "}" || char === "]") && --levels === 0) return i + 1;
    }
    return this.#text.length;
  }

  #value(levels: number): unknown {
    if (levels > MOST_LEVELS) throw TOO_DEEP;
    const char = this.#next();
    if (char === '"') return this.#string();
    if (char === "[") return this.#items("]", () => this.#value(levels + 1));
    if (char !== "{") return JSON.parse(this.#match(LITERAL));
    const entries = this.#items("}", (): [string, unknown] => {
      if (this.#next() !== '"') throw NOT_JSON;
      const key = this.#string();
      if (this.#next() !== ":") throw NOT_JSON;
      this.#at++;
      return [key, this.#value(levels + 1)];
    });
    return Object.fromEntries(entries);
  }

  /** The next character that is no space. */
  #next(): string | undefined {
    this.#match(SPACE);
    return this.#text[this.#at];
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found] = pattern.exec(this.#text) ?? [];
    if (found === undefined) throw NOT_JSON;
    this.#at += found.length;
    return found;
  }

  #items<T>(closing: string, item: () => T): T[] {
    const items: T[] = [];
    this.#at++;
    while (this.#next() !== closing) {
      items.push(item());
      const between = this.#next();
      if (between === ",") this.#at++;
      else if (between !== closing) throw NOT_JSON;
    }
    this.#at++;
    return items;
  }

  #string(): string {
    this.#at++;
    const written = this.#match(STRING).slice(0, -1);
    const proper = written
      .replace(/\\(["\\/bfnrt]|u[\da-fA-F]{4})?/g, (found, known) => (known ? found : "\\\\"))
      .replace(/\p{Cc}/gu, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`);
    return JSON.parse(`"${proper}"`);
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The object itself, or those that it has as values: models without a schema put theirs into a frame. */
function holders(value: unknown, key: string): Record<string, unknown>[] {
  if (!isObject(value)) return [];
  return Object.hasOwn(value, key) ? [value] : Object.values(value).flatMap((inner) => holders(inner, key));
}

/**
 * The object that has the key `key`. Never chooses between several.
 * @throws NoVerdict not_json
 */
export function objectWith(key: string, text: string): Record<string, unknown> {
  const fitting = candidatesIn(text).flatMap((value) => holders(value, key));
  const [first] = fitting;
  if (!first) throw new NoVerdict("not_json", `there is no JSON object with the key "${key}" in it`);
  const different = new Set(fitting.map((value) => JSON.stringify(value)));
  if (different.size > 1) throw new NoVerdict("not_json", `there are ${different.size} different JSON objects in it`);
  return first;
}

function candidatesIn(text: string): Record<string, unknown>[] {
  let whole: unknown;
  try {
    whole = JSON.parse(text);
  } catch {
    // No JSON as a whole, or too deep to be a verdict.
    return objectsIn(text);
  }
  if (typeof whole === "string") return objectsIn(whole);
  // A list holds no answer, whatever stands in it.
  return isObject(whole) ? objectsIn(text) : [];
}

/** The object with this key, as a schema has it. @throws NoVerdict with a message for the judge */
export function readAs<T>(schema: z.ZodType<T>, key: string, text: string): T {
  const parsed = schema.safeParse(objectWith(key, text));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new NoVerdict("wrong_form", `${issue?.path.join(".")}: ${issue?.message}`);
}
