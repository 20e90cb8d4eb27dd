/** Methods of Python's str, list and dict that templates call. */
import { type Operation, operation } from "./signature.js";
import {
  Callable,
  characters,
  type Dict,
  equal,
  fail,
  isDict,
  isNumber,
  isText,
  items,
  Lazy,
  Markup,
  neededKey,
  Tuple,
  text,
  typeName,
  unsupported,
  type Value,
} from "./values.js";

/** Python's white space, which is not JavaScript's. */
const SPACE = "\\t-\\r\\x1c- \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const ALL_SPACE = new RegExp(`^[${SPACE}]+$`);
const SPACES = new RegExp(`([${SPACE}]+)`);
// biome-ignore lint/suspicious/noControlCharactersInRegex: they end lines in Python
const LINE = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/;

/** Characters whose titlecase is neither themselves nor their uppercase. */
const OWN_TITLE = /[\u01c4-\u01cc\u01f1-\u01f3\u10d0-\u10ff\u1f80-\u1faf\u1fb3\u1fbc\u1fc3\u1fcc\u1ff3\u1ffc]/;

function titled(character: string): string {
  const upper = character.toUpperCase();
  if (characters(upper).length > 1 || OWN_TITLE.test(character)) return unsupported(`the title case of ${character}`);
  return upper;
}

/** Python's `str.capitalize`. */
export function capitalized(of: string): string {
  const [first = "", ...rest] = characters(of);
  return titled(first) + rest.join("").toLowerCase();
}

/** Lines without their ends, as `str.splitlines` has them. */
export function linesOf(of: string): string[] {
  const lines = of.split(LINE);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

type Ends = "both" | "left" | "right";

/** Python's `str.strip` and its kind. @param of characters to remove; undefined: white space */
export function stripped(whole: string, of: string | undefined, ends: Ends): string {
  const all = of === undefined ? whole : characters(whole);
  const without = characters(of ?? "");
  const goes = (at: number) => {
    const one = all[at] as string;
    return of === undefined ? ALL_SPACE.test(one) : without.includes(one);
  };
  let [from, to] = [0, all.length];
  if (ends !== "right") while (from < to && goes(from)) from++;
  if (ends !== "left") while (to > from && goes(to - 1)) to--;
  return [all.slice(from, to)].flat().join("");
}

/** The text of an optional argument; None is as if it was left out. */
export function optionalText(value: Value | undefined, what: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  return isText(value) ? text(value) : fail(`${what} must be a text`);
}

const neededText = (value: Value | undefined, what: string): string =>
  optionalText(value, what) ?? fail(`${what} must be a text`);

export function wholeNumber(value: Value | undefined, otherwise: number, what: string): number {
  if (value === undefined) return otherwise;
  return typeof value === "bigint" || typeof value === "boolean"
    ? Number(value)
    : fail(`${what} must be a whole number`);
}

/**
 * Python's `str.split` and `str.rsplit`.
 *
 * @param separator undefined: any white space, which is none of a part
 * @param most how often it is split; negative: wherever it can be
 */
function split(whole: string, separator: string | undefined, most: number, fromEnd: boolean): string[] {
  if (separator === "") return fail("the separator of split is empty");
  const cuts = most < 0 ? Number.POSITIVE_INFINITY : most;
  const ends = most < 0 ? "both" : fromEnd ? "right" : "left";
  /** Parts, and between them what parts them. */
  const all =
    separator === undefined
      ? stripped(whole, undefined, ends).split(SPACES)
      : whole.split(separator).flatMap((part, index) => (index === 0 ? [part] : [separator, part]));
  const count = Math.min(2 * cuts, all.length - 1);
  const rest = (fromEnd ? all.splice(0, all.length - count) : all.splice(count)).join("");
  const parts = all.filter((_, index) => index % 2 === (fromEnd ? 1 : 0));
  const split = fromEnd ? [rest, ...parts] : [...parts, rest];
  return separator === undefined ? split.filter((part) => part !== "") : split;
}

/** Whether a text begins or ends with any of those given. */
function has(whole: string, side: "startsWith" | "endsWith", given: Value | undefined): boolean {
  const all = given instanceof Tuple ? given : [given];
  return all.some((one) => whole[side](neededText(one, "what a text begins or ends with")));
}

/** Position in characters, as Python counts them. */
const position = (whole: string, at: number) => BigInt(at < 0 ? -1 : characters(whole.slice(0, at)).length);

export function replaced(whole: string, old: string, by: string, most: number): string {
  if (old === "") return unsupported("the replacement of an empty text");
  return split(whole, old, most, false).join(by);
}

type Methods<Of> = Readonly<Record<string, Operation<Of>>>;

/** A text has a property if it is not empty and every character has it. */
const every = (pattern: RegExp) => operation<string>([], (whole) => pattern.test(whole));

const strip = (ends: Ends) =>
  operation<string>(["chars?"], (whole, chars) => stripped(whole, optionalText(chars, "what strip removes"), ends));

const splitting = (fromEnd: boolean) =>
  operation<string>(["sep?", "maxsplit?"], (whole, separator, most) =>
    split(whole, optionalText(separator, "the separator"), wholeNumber(most, -1, "maxsplit"), fromEnd),
  );

const finding = (search: "indexOf" | "lastIndexOf") =>
  operation<string>(["sub"], (whole, sub) => position(whole, whole[search](neededText(sub, "what is looked for"))));

const textMethods: Methods<string> = {
  strip: strip("both"),
  lstrip: strip("left"),
  rstrip: strip("right"),
  upper: operation([], (whole) => whole.toUpperCase()),
  lower: operation([], (whole) => whole.toLowerCase()),
  // A word is a run of letters.
  title: operation([], (whole) => whole.replace(/\p{L}+/gu, capitalized)),
  capitalize: operation([], capitalized),
  startswith: operation(["prefix"], (whole, given) => has(whole, "startsWith", given)),
  endswith: operation(["suffix"], (whole, given) => has(whole, "endsWith", given)),
  split: splitting(false),
  rsplit: splitting(true),
  splitlines: operation([], linesOf),
  replace: operation(["old", "new", "count?"], (whole, old, by, count) =>
    replaced(whole, neededText(old, "old"), neededText(by, "new"), wholeNumber(count, -1, "count")),
  ),
  find: finding("indexOf"),
  rfind: finding("lastIndexOf"),
  count: operation(["sub"], (whole, sub) => {
    const wanted = neededText(sub, "what is counted");
    return BigInt(wanted === "" ? characters(whole).length + 1 : whole.split(wanted).length - 1);
  }),
  join: operation(["iterable"], (whole, all) =>
    items(all as Value)
      .map((one) => neededText(one, "an item that is joined"))
      .join(whole),
  ),
  removeprefix: operation(["prefix"], (whole, given) => {
    const prefix = neededText(given, "the prefix");
    return whole.startsWith(prefix) ? whole.slice(prefix.length) : whole;
  }),
  removesuffix: operation(["suffix"], (whole, given) => {
    const suffix = neededText(given, "the suffix");
    return whole.endsWith(suffix) ? whole.slice(0, whole.length - suffix.length) : whole;
  }),
  isspace: every(ALL_SPACE),
  isdigit: every(/^[\p{Nd}\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]+$/u),
  isdecimal: every(/^\p{Nd}+$/u),
  isalpha: every(/^\p{L}+$/u),
  isalnum: every(/^[\p{L}\p{N}]+$/u),
};

const listMethods: Methods<readonly Value[]> = {
  count: operation(["value"], (of, value) => BigInt(of.filter((one) => equal(one, value as Value)).length)),
  index: operation(["value"], (of, value) => {
    const at = of.findIndex((one) => equal(one, value as Value));
    return at < 0 ? fail("the list has no such value") : BigInt(at);
  }),
};

const dictMethods: Methods<Dict> = {
  get: operation(["key", "default?"], (of, key, otherwise = null) => {
    const known = neededKey(key as Value);
    return of.has(known) ? (of.get(known) as Value) : otherwise;
  }),
  keys: operation([], (of) => new Lazy("view", [...of.keys()])),
  values: operation([], (of) => new Lazy("view", [...of.values()])),
  items: operation([], (of) => new Lazy("view", pairsOf(of))),
  copy: operation([], (of) => new Map(of)),
};

/** A dict's items. */
export const pairsOf = (of: Dict) => [...of].map((entry) => Tuple.from<Value>(entry));

const words = (all: string): ReadonlySet<string> => new Set(all.split(" "));
const NUMBERS = words(
  "as_integer_ratio bit_count bit_length conjugate denominator fromhex from_bytes hex imag is_integer numerator real to_bytes",
);
/** Attributes of Python's types that are not rendered; a name that is neither here nor above is no attribute. */
const LACKING: Readonly<Record<string, ReadonlySet<string>>> = {
  str: words(
    "casefold center encode expandtabs format format_map index isascii isidentifier islower isnumeric isprintable istitle isupper ljust maketrans partition rindex rjust rpartition swapcase translate zfill",
  ),
  list: words("copy"),
  view: words("mapping"),
  bool: NUMBERS,
  int: NUMBERS,
  float: NUMBERS,
};
const CHANGING: Readonly<Record<string, ReadonlySet<string>>> = {
  list: words("append clear extend insert pop remove reverse sort"),
  dict: words("clear pop popitem setdefault update"),
};

/**
 * The method of a value with this name; undefined where Python has no attribute of that name.
 *
 * @throws TemplateError for a method that changes its object, which transformers refuses, and for one that hone lacks
 */
export function methodOf(value: Value, name: string): Callable | undefined {
  const type = isText(value) ? "str" : typeName(value);
  if (CHANGING[type]?.has(name)) return fail(`a template must not change a ${type} (${name})`);
  if (LACKING[type]?.has(name))
    return unsupported(`the method ${name} of a ${isText(value) ? "text" : isNumber(value) ? "number" : type}`);
  const bound = <Of>(methods: Methods<Of>, of: Of) => {
    const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
    return method && new Callable(name, (args, keywords) => method(name, of, args, keywords));
  };
  if (isDict(value)) return bound(dictMethods, value);
  if (Array.isArray(value)) return bound(listMethods, value);
  const method = isText(value) ? bound(textMethods, text(value)) : undefined;
  if (method && value instanceof Markup) return unsupported(`the method ${name} of a text that is marked safe`);
  return method;
}
