/** Python's `json.dumps`, as the filter `tojson` of transformers calls it. */
import { compareTexts, fail, floatText, isDict, Markup, typeName, type Value } from "./values.js";

export interface JsonForm {
  readonly asciiOnly: boolean;
  /** Text that a level is indented by; null: all in one line. */
  readonly indent: string | null;
  /** Text behind an item and behind a key; null: Python's. */
  readonly separators: readonly [item: string, key: string] | null;
  readonly sortKeys: boolean;
}

const ONE_LINE: JsonForm = { asciiOnly: false, indent: null, separators: null, sortKeys: false };

/** Noncharacters are left out in which callers pass texts through. */
const NOT_ASCII = /[^ -~\ufdd0-\ufdef]/g;
const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

function numberText(value: number): string {
  if (Number.isFinite(value)) return floatText(value);
  return Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

/** @throws TemplateError for a value that JSON has no form of */
export function jsonText(value: Value, form: Partial<JsonForm> = {}, depth = 0): string {
  const { asciiOnly, indent, separators, sortKeys } = { ...ONE_LINE, ...form };
  // JavaScript escapes what Python does, and halves of characters, which would be lost.
  const quoted = (of: string) => (asciiOnly ? JSON.stringify(of).replace(NOT_ASCII, escaped) : JSON.stringify(of));
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
  const written = (one: Value) => jsonText(one, form, depth + 1);
  if (Array.isArray(value)) return around("[", Array.from(value, written), "]");
  if (!isDict(value)) return fail(`a value of type ${typeName(value)} has no form in JSON`);
  const entries = [...value].map(([key, one]): [string, Value] => [String(key), one]);
  if (sortKeys) entries.sort(([a], [b]) => compareTexts(a, b));
  const pairs = entries.map(([key, one]) => quoted(key) + afterKey + written(one));
  return around("{", pairs, "}");
}
