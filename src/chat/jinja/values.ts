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

export class Tuple {
  constructor(readonly items: readonly Value[]) {}
}

/** Text that `|safe` has marked; added to other text, it would escape that. */
export class Markup {
  constructor(readonly text: string) {}
}

/** What `keys`, `values` and `items` of a dict return. */
export class View {
  constructor(readonly items: readonly Value[]) {}
}

/** What `range` returns. */
export class Range extends View {}

/** What a lazy filter returns: it can be gone through once. */
export class Generator {
  #items: readonly Value[];

  constructor(items: readonly Value[]) {
    this.#items = items;
  }

  take(): readonly Value[] {
    const items = this.#items;
    this.#items = [];
    return items;
  }
}

export class Namespace {
  constructor(readonly values: Map<string, Value>) {}
}

/** `loop` in a loop's body. */
export class Loop {
  constructor(
    readonly length: number,
    readonly attribute: (name: string) => Value | undefined,
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
  | Tuple
  | Markup
  | View
  | Generator
  | Namespace
  | Loop
  | Callable;

export const isDict = (value: Value): value is Dict => value instanceof Map;
export const isText = (value: Value): value is string | Markup => typeof value === "string" || value instanceof Markup;
export const isNumber = (value: Value): value is number | bigint | boolean =>
  typeof value === "number" || typeof value === "bigint" || typeof value === "boolean";

export function typeName(value: Value): string {
  if (value === null) return "None";
  if (typeof value === "string") return "str";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "bigint") return "int";
  if (typeof value === "number") return "float";
  if (Array.isArray(value)) return "list";
  if (isDict(value)) return "dict";
  if (value instanceof Undefined) return `undefined (${value.name})`;
  return value.constructor.name.toLowerCase();
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
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  const [mantissa = "", power = "0"] = Math.abs(value).toExponential().split("e");
  const digits = mantissa.replace(".", "");
  const exponent = Number(power);
  if (value !== 0 && (exponent < -4 || exponent >= 16)) {
    const fraction = digits.length > 1 ? `.${digits.slice(1)}` : "";
    return `${sign}${digits[0]}${fraction}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
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
      return hex.length <= 2
        ? `\\x${hex.padStart(2, "0")}`
        : hex.length <= 4
          ? `\\u${hex.padStart(4, "0")}`
          : `\\U${hex.padStart(8, "0")}`;
    });
  return `${quote}${escaped}${quote}`;
}

/** Python's `repr`. */
function repr(value: Value): string {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`;
  if (value instanceof Tuple) {
    return `(${value.items.map(repr).join(", ")}${value.items.length === 1 ? "," : ""})`;
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
  if (Array.isArray(value) || isDict(value) || value instanceof Tuple) return repr(value);
  return unsupported(`the text of a ${typeName(value)}`);
}

export function truth(value: Value): boolean {
  if (value === null || value instanceof Undefined) return false;
  if (typeof value === "number") return value !== 0;
  if (Array.isArray(value)) return value.length > 0;
  if (isDict(value)) return value.size > 0;
  if (value instanceof Markup) return value.text !== "";
  if (value instanceof Tuple || value instanceof View) return value.items.length > 0;
  if (typeof value === "object") return true;
  return Boolean(value);
}

/** Characters as Python counts them. */
export const characters = (of: string): readonly string[] => (/[\ud800-\udfff]/.test(of) ? [...of] : of.split(""));

/** What a loop goes through; undefined where it cannot. */
function iterated(value: Value): readonly Value[] | undefined {
  if (isText(value)) return characters(text(value));
  if (Array.isArray(value)) return value;
  if (isDict(value)) return [...value.keys()];
  if (value instanceof Tuple || value instanceof View) return value.items;
  if (value instanceof Generator) return value.take();
  if (value instanceof Undefined) return [];
  return undefined;
}

export const items = (value: Value): readonly Value[] =>
  iterated(value) ?? fail(`a value of type ${typeName(value)} cannot be gone through`);

/** Python's `len`; undefined where there is none. */
export function lengthOf(value: Value): number | undefined {
  if (value instanceof Generator) return undefined;
  if (value instanceof Loop) return value.length;
  return iterated(value)?.length;
}

/** A bool is an int. */
export const numberOf = (value: number | bigint | boolean) => (typeof value === "boolean" ? BigInt(value) : value);

export function equal(a: Value, b: Value): boolean {
  // Python compares int and float by their mathematical values, as == does here.
  // biome-ignore lint/suspicious/noDoubleEquals: see above
  if (isNumber(a) && isNumber(b)) return numberOf(a) == numberOf(b);
  if (isText(a) && isText(b)) return text(a) === text(b);
  if (Array.isArray(a) && Array.isArray(b)) return alike(a, b);
  if (a instanceof Tuple && b instanceof Tuple) return alike(a.items, b.items);
  if (isDict(a) && isDict(b)) {
    return a.size === b.size && [...a].every(([key, one]) => b.has(key) && equal(one, b.get(key) as Value));
  }
  if (a instanceof Undefined && b instanceof Undefined) return true;
  return a === b;
}

const alike = (a: readonly Value[], b: readonly Value[]) =>
  a.length === b.length && a.every((one, index) => equal(one, b[index] as Value));

/** Order of texts: by code points. */
export function compareTexts(a: string, b: string): number {
  const [left, right] = [characters(a), characters(b)];
  const at = left.findIndex((one, index) => one !== right[index]);
  if (at < 0) return left.length - right.length;
  if (at >= right.length) return 1;
  return ((left[at] as string).codePointAt(0) as number) - ((right[at] as string).codePointAt(0) as number);
}

/** Negative, 0 or positive; NaN where neither is less. */
export function compare(a: Value, b: Value): number {
  if (isNumber(a) && isNumber(b)) {
    const [left, right] = [numberOf(a), numberOf(b)];
    return left < right ? -1 : left > right ? 1 : Number.isNaN(left) || Number.isNaN(right) ? Number.NaN : 0;
  }
  if (isText(a) && isText(b)) return compareTexts(text(a), text(b));
  const lists =
    Array.isArray(a) && Array.isArray(b)
      ? [a, b]
      : a instanceof Tuple && b instanceof Tuple
        ? [a.items, b.items]
        : undefined;
  if (!lists) return fail(`values of type ${typeName(a)} and ${typeName(b)} have no order`);
  const [left, right] = lists as [readonly Value[], readonly Value[]];
  const at = left.findIndex((one, index) => index >= right.length || !equal(one, right[index] as Value));
  if (at < 0) return left.length - right.length;
  return at >= right.length ? 1 : compare(left[at] as Value, right[at] as Value);
}

/** Whether a value can be the key of an item: no dict has another one. */
export const isKey = (value: Value) =>
  isText(value) || value === null || (isNumber(value) && (typeof value !== "number" || Number.isInteger(value)));

/** A dict's key. */
export function keyOf(value: Value): Key {
  if (!isKey(value)) return unsupported(`a value of type ${typeName(value)} as a dict's key`);
  return value === null ? null : isText(value) ? text(value) : BigInt(value as number | bigint | boolean);
}

/** @throws TemplateError for what Python cannot hash */
export const hashable = (value: Value): Value =>
  Array.isArray(value) || isDict(value) ? fail(`a value of type ${typeName(value)} is no key`) : value;

export function contains(whole: Value, part: Value): boolean {
  if (isText(whole)) {
    if (!isText(part)) return fail(`a text cannot contain a value of type ${typeName(part)}`);
    return text(whole).includes(text(part));
  }
  if (isDict(whole)) return isKey(hashable(part)) && whole.has(keyOf(part));
  return items(whole).some((one) => equal(one, part));
}
