/** Python's `json.dumps`, as the filter `tojson` of transformers calls it. */
import { compareTexts, fail, floatText, isDict, Markup, Tuple, typeName, type Value } from "./values.js";

export interface JsonForm {
  readonly asciiOnly: boolean;
  /** Text that a level is indented by; null: all in one line. */
  readonly indent: string | null;
  /** Text behind an item and behind a key; null: Python's. */
  readonly separators: readonly [item: string, key: string] | null;
  readonly sortKeys: boolean;
}

const ONE_LINE: JsonForm = { asciiOnly: false, indent: null, separators: null, sortKeys: false };

const SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\f": "\\f",
  "\b": "\\b",
};
const escaped = (character: string) =>
  SHORT[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON escapes them, and half characters would be lost
const CONTROL = /["\\\x00-\x1f]|\p{Cs}/gu;
/** Noncharacters are left out in which callers pass texts through. */
const NOT_ASCII = /["\\]|[^ -~\ufdd0-\ufdef]/g;

function numberText(value: number): string {
  if (Number.isFinite(value)) return floatText(value);
  return Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

/** @throws TemplateError for a value that JSON has no form of */
export function jsonText(value: Value, form: Partial<JsonForm> = {}, depth = 0): string {
  const { asciiOnly, indent, separators, sortKeys } = { ...ONE_LINE, ...form };
  const quoted = (of: string) => `"${of.replace(asciiOnly ? NOT_ASCII : CONTROL, escaped)}"`;
  if (typeof value === "string") return quoted(value);
  if (value instanceof Markup) return quoted(value.text);
  if (value === null || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value === "number") return numberText(value);
  const [afterItem, afterKey] = separators ?? [indent === null ? ", " : ",", ": "];
  const around = (open: string, all: readonly string[], close: string) => {
    if (all.length === 0) return open + close;
    if (indent === null) return open + all.join(afterItem) + close;
    const line = `\n${indent.repeat(depth + 1)}`;
    return `${open}${line}${all.join(afterItem + line)}\n${indent.repeat(depth)}${close}`;
  };
  if (Array.isArray(value) || value instanceof Tuple) {
    const all = value instanceof Tuple ? value.items : value;
    return around(
      "[",
      [...all].map((one) => jsonText(one, form, depth + 1)),
      "]",
    );
  }
  if (isDict(value)) {
    const entries = [...value].map(([key, one]): [string, Value] => [key === null ? "null" : String(key), one]);
    if (sortKeys) entries.sort(([a], [b]) => compareTexts(a, b));
    return around(
      "{",
      entries.map(([key, one]) => quoted(key) + afterKey + jsonText(one, form, depth + 1)),
      "}",
    );
  }
  return fail(`a value of type ${typeName(value)} has no form in JSON`);
}
