/** Methods of Python's str, list and dict that templates call. */
import { apply, type Operation } from "./signature.js";
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
  keyOf,
  Markup,
  Tuple,
  text,
  typeName,
  unsupported,
  type Value,
  View,
} from "./values.js";

/** Python's white space, which is not JavaScript's. */
const SPACE = "\\t-\\r\\x1c- \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const ALL_SPACE = new RegExp(`^[${SPACE}]+$`);
const SPACES = new RegExp(`[${SPACE}]+`);
const SPACES_BEFORE = new RegExp(`^[${SPACE}]+`);
const WORD = new RegExp(`[^${SPACE}]+`, "g");
const SPACES_BEHIND = new RegExp(`[${SPACE}]+$`);
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
  return first === "" ? "" : titled(first) + rest.join("").toLowerCase();
}

/** Python's `str.title`: a word is a run of letters. */
const titleCased = (of: string) => of.replace(/\p{L}+/gu, (word) => capitalized(word));

/** Lines without their ends, as `str.splitlines` has them. */
export function linesOf(of: string): string[] {
  const lines = of.split(LINE);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

type Ends = "both" | "left" | "right";

/** Python's `str.strip` and its kind. @param of characters to remove; undefined: white space */
export function stripped(whole: string, of: string | undefined, ends: Ends): string {
  if (of === undefined) {
    const begun = ends === "right" ? whole : whole.replace(SPACES_BEFORE, "");
    if (ends === "left") return begun;
    // A search from the end: a regular expression would look at every run of spaces.
    let end = begun.length;
    while (end > 0 && ALL_SPACE.test(begun[end - 1] as string)) end--;
    return begun.slice(0, end);
  }
  const all = characters(whole);
  const without = new Set(characters(of));
  let [from, to] = [0, all.length];
  if (ends !== "right") while (from < to && without.has(all[from] as string)) from++;
  if (ends !== "left") while (to > from && without.has(all[to - 1] as string)) to--;
  return all.slice(from, to).join("");
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
  if (typeof value === "bigint") return Number(value);
  if (typeof value === "boolean") return Number(value);
  return fail(`${what} must be a whole number`);
}

function split(whole: string, separator: string | undefined, most: number, fromEnd: boolean): string[] {
  if (separator === undefined) {
    if (most < 0) return whole.match(WORD) ?? [];
    return fromEnd ? splitWordsFromEnd(whole, most) : splitWords(whole, most);
  }
  if (separator === "") return fail("the separator of split is empty");
  const parts = whole.split(separator);
  if (most < 0 || parts.length - 1 <= most) return parts;
  return fromEnd
    ? [parts.slice(0, parts.length - most).join(separator), ...parts.slice(parts.length - most)]
    : [...parts.slice(0, most), parts.slice(most).join(separator)];
}

function splitWords(whole: string, most: number): string[] {
  const words: string[] = [];
  let rest = whole.replace(SPACES_BEFORE, "");
  while (rest !== "" && words.length < most) {
    const gap = SPACES.exec(rest);
    words.push(gap ? rest.slice(0, gap.index) : rest);
    rest = gap ? rest.slice(gap.index + gap[0].length) : "";
  }
  return rest === "" ? words : [...words, rest];
}

function splitWordsFromEnd(whole: string, most: number): string[] {
  const words: string[] = [];
  let rest = whole.replace(SPACES_BEHIND, "");
  while (rest !== "" && words.length < most) {
    const [word = ""] = new RegExp(`[^${SPACE}]+$`).exec(rest) ?? [];
    words.unshift(word);
    rest = rest.slice(0, rest.length - word.length).replace(SPACES_BEHIND, "");
  }
  return rest === "" ? words : [rest, ...words];
}

/** Whether a text begins or ends with any of those given. */
function has(whole: string, side: "startsWith" | "endsWith", given: Value | undefined): boolean {
  const all = given instanceof Tuple ? given.items : [given as Value];
  return all.some((one) => whole[side](neededText(one, "what a text begins or ends with")));
}

/** Position in characters, as Python counts them. */
const position = (whole: string, at: number) => BigInt(at < 0 ? -1 : characters(whole.slice(0, at)).length);

export function replaced(whole: string, old: string, by: string, most: number): string {
  if (old === "") return unsupported("the replacement of an empty text");
  if (most < 0) return whole.replaceAll(old, () => by);
  const parts = split(whole, old, most, false);
  return parts.join(by);
}

type Methods<Of> = Readonly<Record<string, Operation<Of>>>;

/** A text has a property if it is not empty and every character has it. */
const every = (pattern: RegExp): Operation<string> => ({ parameters: [], run: (whole) => pattern.test(whole) });

const strip = (ends: Ends): Operation<string> => ({
  parameters: ["chars?"],
  run: (whole, chars) => stripped(whole, optionalText(chars, "what strip removes"), ends),
});

const splitting = (fromEnd: boolean): Operation<string> => ({
  parameters: ["sep?", "maxsplit?"],
  run: (whole, sep, most) =>
    split(whole, optionalText(sep, "the separator"), wholeNumber(most, -1, "maxsplit"), fromEnd),
});

const finding = (search: "indexOf" | "lastIndexOf"): Operation<string> => ({
  parameters: ["sub"],
  run: (whole, sub) => position(whole, whole[search](neededText(sub, "what is looked for"))),
});

const textMethods: Methods<string> = {
  strip: strip("both"),
  lstrip: strip("left"),
  rstrip: strip("right"),
  upper: { parameters: [], run: (whole) => whole.toUpperCase() },
  lower: { parameters: [], run: (whole) => whole.toLowerCase() },
  title: { parameters: [], run: titleCased },
  capitalize: { parameters: [], run: capitalized },
  startswith: { parameters: ["prefix"], run: (whole, given) => has(whole, "startsWith", given) },
  endswith: { parameters: ["suffix"], run: (whole, given) => has(whole, "endsWith", given) },
  split: splitting(false),
  rsplit: splitting(true),
  splitlines: { parameters: [], run: linesOf },
  replace: {
    parameters: ["old", "new", "count?"],
    run: (whole, old, by, count) =>
      replaced(whole, neededText(old, "old"), neededText(by, "new"), wholeNumber(count, -1, "count")),
  },
  find: finding("indexOf"),
  rfind: finding("lastIndexOf"),
  count: {
    parameters: ["sub"],
    run: (whole, sub) => {
      const wanted = neededText(sub, "what is counted");
      return BigInt(wanted === "" ? characters(whole).length + 1 : whole.split(wanted).length - 1);
    },
  },
  join: {
    parameters: ["iterable"],
    run: (whole, all) =>
      items(all as Value)
        .map((one) => neededText(one, "an item that is joined"))
        .join(whole),
  },
  removeprefix: {
    parameters: ["prefix"],
    run: (whole, given) => {
      const prefix = neededText(given, "the prefix");
      return whole.startsWith(prefix) ? whole.slice(prefix.length) : whole;
    },
  },
  removesuffix: {
    parameters: ["suffix"],
    run: (whole, given) => {
      const suffix = neededText(given, "the suffix");
      return suffix !== "" && whole.endsWith(suffix) ? whole.slice(0, -suffix.length) : whole;
    },
  },
  isspace: every(ALL_SPACE),
  isdigit: every(/^[\p{Nd}\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]+$/u),
  isdecimal: every(/^\p{Nd}+$/u),
  isalpha: every(/^\p{L}+$/u),
  isalnum: every(/^[\p{L}\p{N}]+$/u),
};

/** Attributes of Python's str that are not rendered; a name that is neither here nor above is no attribute. */
const OTHER_TEXT_METHODS = new Set(
  "casefold center encode expandtabs format format_map index isascii isidentifier islower isnumeric isprintable istitle isupper ljust maketrans partition rindex rjust rpartition swapcase translate zfill".split(
    " ",
  ),
);
const NUMBER_ATTRIBUTES = new Set(
  "as_integer_ratio bit_count bit_length conjugate denominator fromhex from_bytes hex imag is_integer numerator real to_bytes".split(
    " ",
  ),
);
const CHANGING_LIST = new Set("append clear extend insert pop remove reverse sort".split(" "));
const CHANGING_DICT = new Set("clear pop popitem setdefault update".split(" "));

const listMethods: Methods<readonly Value[]> = {
  count: {
    parameters: ["value"],
    run: (of, value) => BigInt(of.filter((one) => equal(one, value as Value)).length),
  },
  index: {
    parameters: ["value"],
    run: (of, value) => {
      const at = of.findIndex((one) => equal(one, value as Value));
      return at < 0 ? fail("the list has no such value") : BigInt(at);
    },
  },
};

const dictMethods: Methods<Dict> = {
  get: {
    parameters: ["key", "default?"],
    run: (of, key, otherwise = null) => {
      const known = keyOf(key as Value);
      return of.has(known) ? (of.get(known) as Value) : otherwise;
    },
  },
  keys: { parameters: [], run: (of) => new View([...of.keys()]) },
  values: { parameters: [], run: (of) => new View([...of.values()]) },
  items: { parameters: [], run: (of) => new View([...of].map((entry) => new Tuple(entry))) },
  copy: { parameters: [], run: (of) => new Map(of) },
};

function bound<Of>(name: string, methods: Methods<Of>, of: Of): Callable | undefined {
  const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
  return method && new Callable(name, (args, keywords) => apply(name, method, of, args, keywords));
}

/**
 * The method of a value with this name; undefined where Python has no attribute of that name.
 *
 * @throws TemplateError for a method that changes its object, which transformers refuses, and for one that hone lacks
 */
export function methodOf(value: Value, name: string): Callable | undefined {
  if (isText(value)) {
    const method = bound(name, textMethods, text(value));
    if (!method) return OTHER_TEXT_METHODS.has(name) ? unsupported(`the method ${name} of a text`) : undefined;
    return value instanceof Markup ? unsupported(`the method ${name} of a text that is marked safe`) : method;
  }
  if (isDict(value)) {
    if (CHANGING_DICT.has(name)) return fail(`a template must not change a dict (${name})`);
    return bound(name, dictMethods, value);
  }
  if (Array.isArray(value) || value instanceof Tuple) {
    const isList = Array.isArray(value);
    if (isList && CHANGING_LIST.has(name)) return fail(`a template must not change a list (${name})`);
    if (isList && name === "copy") return unsupported("the method copy of a list");
    return bound(name, listMethods, isList ? value : value.items);
  }
  if (isNumber(value) && NUMBER_ATTRIBUTES.has(name)) return unsupported(`${name} of a number`);
  if (value instanceof View && name === "mapping") return unsupported(`the attribute ${name} of a ${typeName(value)}`);
  return undefined;
}
