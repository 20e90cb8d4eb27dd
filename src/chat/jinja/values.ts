/**
 * Values of a template as Python has them: int is a bigint, float a number, list an array, dict a Map. Their texts,
 * truth, equality and order are Python's, so that a template writes what it writes in transformers.
 */

/** A template cannot be rendered, here as in transformers. The message is one line. */
class TemplateError extends Error {}

/** A template uses something that hone does not render as transformers does. */
export class UnsupportedTemplate extends TemplateError {}

export function unsupported(construct: string): never {
  throw new UnsupportedTemplate(`it uses ${construct}, which hone does not render`);
}

export function fail(message: string): never {
  throw new TemplateError(message);
}

export class Undefined {
  /** @param name for messages */
  constructor(readonly name: string) {}
}

/** Made by `Tuple.from` and `Tuple.of`: its constructor takes a length. */
export class Tuple extends Array<Value> {}

/** Text that `|safe` has marked; added to other text, it would escape that. */
export class Markup {
  constructor(readonly text: string) {}
}

/** What can be gone through and is no list: a dict's `items()`, a range, and what a lazy filter returns, which is then gone. */
export class Lazy {
  readonly kind: "view" | "range" | "generator";
  #items: readonly Value[];

  constructor(kind: Lazy["kind"], items: readonly Value[]) {
    this.kind = kind;
    this.#items = items;
  }

  take(): readonly Value[] {
    const items = this.#items;
    if (this.kind === "generator") this.#items = [];
    return items;
  }
}

/** What a template can assign to the attributes of. */
export class Namespace {
  constructor(readonly values: Map<string, Value>) {}
}

/** `loop` in a loop's body, of the pass over an item. */
export class Loop {
  constructor(
    readonly items: readonly Value[],
    readonly index: number,
  ) {}
}

export type Keywords = ReadonlyMap<string, Value>;

export class Callable {
  constructor(
    readonly name: string,
    readonly call: (args: readonly Value[], keywords: Keywords) => Value,
  ) {}
}

/** Keys of a dict that are supported: str, int and None. */
export type Key = string | bigint | null;
export type Dict = Map<Key, Value>;

export type Value =
  | null
  | boolean
  | bigint
  | number
  | string
  | Value[]
  | Dict
  | Undefined
  | Markup
  | Lazy
  | Namespace
  | Loop
  | Callable;

export const isDict = (value: Value): value is Dict => value instanceof Map;
export const isText = (value: Value): value is string | Markup => typeof value === "string" || value instanceof Markup;
export const isNumber = (value: Value): value is number | bigint | boolean =>
  typeof value === "number" || typeof value === "bigint" || typeof value === "boolean";

const TYPES: Readonly<Record<string, string>> = { string: "str", boolean: "bool", bigint: "int", number: "float" };

export function typeName(value: Value): string {
  if (value === null) return "None";
  if (typeof value !== "object") return TYPES[typeof value] as string;
  if (isDict(value)) return "dict";
  if (value instanceof Undefined) return `undefined (${value.name})`;
  if (value instanceof Lazy) return value.kind;
  return value.constructor === Array ? "list" : value.constructor.name.toLowerCase();
}

/** A value of JavaScript: whole numbers that JavaScript holds exactly are int, other numbers float. */
export function asValue(input: unknown): Value {
  if (input === null || typeof input === "string" || typeof input === "boolean" || typeof input === "bigint") {
    return input;
  }
  if (typeof input === "number") return Number.isSafeInteger(input) ? BigInt(input) : input;
  if (Array.isArray(input)) return input.map(asValue);
  if (typeof input === "object") {
    const entries = Object.entries(input).filter(([, value]) => value !== undefined);
    return new Map(entries.map(([key, value]): [Key, Value] => [key, asValue(value)]));
  }
  throw new Error(`a template takes no ${typeof input}`);
}

/** Python's `repr` of a float: the shortest digits that are this number, with an exponent below 1e-4 and from 1e16 on. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) {
    // Two digits of the exponent at least.
    return value.toExponential().replace(/(?<=e[+-])(?=\d$)/, "0");
  }
  const digits = Object.is(value, -0) ? "-0" : String(value);
  return digits.includes(".") ? digits : `${digits}.0`;
}

const ESCAPED: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
/** What Python's `repr` does not print as it is; the noncharacters are left out in which callers pass texts through. */
const UNPRINTABLE = /(?![ \ufdd0-\ufdef])[\p{C}\p{Z}]/gu;

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text
    .replace(/[\\\n\r\t]/g, (found) => ESCAPED[found] as string)
    .replaceAll(quote, `\\${quote}`)
    .replace(UNPRINTABLE, (found) => {
      const hex = (found.codePointAt(0) as number).toString(16);
      const [mark, digits] = hex.length <= 2 ? ["x", 2] : hex.length <= 4 ? ["u", 4] : ["U", 8];
      return `\\${mark}${hex.padStart(digits as number, "0")}`;
    });
  return `${quote}${escaped}${quote}`;
}

/** Python's `repr`. */
function repr(value: Value): string {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) {
    const all = value.map(repr).join(", ");
    return value instanceof Tuple ? `(${all}${value.length === 1 ? "," : ""})` : `[${all}]`;
  }
  if (isDict(value)) return `{${[...value].map(([key, one]) => `${repr(key)}: ${repr(one)}`).join(", ")}}`;
  if (value instanceof Undefined) return "Undefined";
  if (value instanceof Markup) return `Markup(${quoted(value.text)})`;
  return text(value);
}

/** Python's `str`: what `{{ }}` writes. */
export function text(value: Value): string {
  if (typeof value === "string") return value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Undefined) return "";
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") return floatText(value);
  if (Array.isArray(value) || isDict(value)) return repr(value);
  return unsupported(`the text of a ${typeName(value)}`);
}

export function truth(value: Value): boolean {
  if (typeof value === "number") return value !== 0;
  if (typeof value !== "object" || value === null) return Boolean(value);
  const length = lengthOf(value);
  return length === undefined || length > 0;
}

/** Characters as Python counts them. */
export const characters = (of: string): readonly string[] => (/[\ud800-\udfff]/.test(of) ? [...of] : of.split(""));

/** What a loop goes through; undefined where it cannot. */
function iterated(value: Value): readonly Value[] | undefined {
  if (isText(value)) return characters(text(value));
  if (Array.isArray(value)) return value;
  if (isDict(value)) return [...value.keys()];
  if (value instanceof Lazy) return value.take();
  if (value instanceof Undefined) return [];
  return undefined;
}

export const items = (value: Value): readonly Value[] =>
  iterated(value) ?? fail(`a value of type ${typeName(value)} cannot be gone through`);

/** Python's `len`; undefined where there is none. */
export function lengthOf(value: Value): number | undefined {
  if (value instanceof Lazy && value.kind === "generator") return undefined;
  return (value instanceof Loop ? value.items : iterated(value))?.length;
}

/** A bool is an int. */
export const numberOf = (value: number | bigint | boolean) => (typeof value === "boolean" ? BigInt(value) : value);

/** Two lists, or two tuples; undefined where they are neither. */
export const listsOf = (a: Value, b: Value): readonly [Value[], Value[]] | undefined =>
  Array.isArray(a) && Array.isArray(b) && a instanceof Tuple === b instanceof Tuple ? [a, b] : undefined;

export function equal(a: Value, b: Value): boolean {
  // Python compares int and float by their mathematical values, as == does here.
  // biome-ignore lint/suspicious/noDoubleEquals: see above
  if (isNumber(a) && isNumber(b)) return numberOf(a) == numberOf(b);
  if (isText(a) && isText(b)) return text(a) === text(b);
  const [left, right] = listsOf(a, b) ?? [];
  if (left && right) return left.length === right.length && left.every((one, at) => equal(one, right[at] as Value));
  if (isDict(a) && isDict(b)) {
    return a.size === b.size && [...a].every(([key, one]) => b.has(key) && equal(one, b.get(key) as Value));
  }
  return a === b || (a instanceof Undefined && b instanceof Undefined);
}

/** Order of texts: by code points, which is that of their bytes in UTF-8. */
export const compareTexts = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Negative, 0 or positive; NaN where neither is less. */
export function compare(a: Value, b: Value): number {
  if (isNumber(a) && isNumber(b)) {
    const [left, right] = [numberOf(a), numberOf(b)];
    return left < right ? -1 : left > right ? 1 : Number.isNaN(left) || Number.isNaN(right) ? Number.NaN : 0;
  }
  if (isText(a) && isText(b)) return compareTexts(text(a), text(b));
  const [left, right] = listsOf(a, b) ?? fail(`values of type ${typeName(a)} and ${typeName(b)} have no order`);
  const at = left.findIndex((one, index) => index >= right.length || !equal(one, right[index] as Value));
  if (at < 0) return left.length - right.length;
  return at >= right.length ? 1 : compare(left[at] as Value, right[at] as Value);
}

/** A dict's key; undefined where no dict has such a one. */
export function keyOf(value: Value): Key | undefined {
  if (value === null) return null;
  if (isText(value)) return text(value);
  return isNumber(value) && (typeof value !== "number" || Number.isInteger(value)) ? BigInt(value) : undefined;
}

/** @throws UnsupportedTemplate where no dict has such a key */
export function neededKey(value: Value): Key {
  const key = keyOf(value);
  return key === undefined ? unsupported(`a value of type ${typeName(value)} as a dict's key`) : key;
}

/** @throws TemplateError for what Python cannot hash */
export const hashable = (value: Value): Value =>
  typeName(value) === "list" || isDict(value) ? fail(`a value of type ${typeName(value)} is no key`) : value;

export function contains(whole: Value, part: Value): boolean {
  if (isText(whole)) {
    if (!isText(part)) return fail(`a text cannot contain a value of type ${typeName(part)}`);
    return text(whole).includes(text(part));
  }
  if (!isDict(whole)) return items(whole).some((one) => equal(one, part));
  const key = keyOf(hashable(part));
  return key !== undefined && whole.has(key);
}
