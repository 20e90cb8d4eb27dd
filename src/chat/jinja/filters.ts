/** Jinja's filters, and `tojson` as transformers has it. */
import { orUndefined, subscript } from "./access.js";
import { jsonText } from "./json.js";
import { capitalized, linesOf, optionalText, pairsOf, replaced, stripped, wholeNumber } from "./methods.js";
import { type Operation, operation } from "./signature.js";
import { holds } from "./tests.js";
import {
  characters,
  compare,
  equal,
  fail,
  hashable,
  isDict,
  isNumber,
  isText,
  items,
  type Keywords,
  Lazy,
  lengthOf,
  Markup,
  numberOf,
  text,
  truth,
  typeName,
  Undefined,
  unsupported,
  type Value,
} from "./values.js";

type Filter = Operation<Value>;

const generator = (all: readonly Value[]) => new Lazy("generator", all);
const isGenerator = (value: Value) => value instanceof Lazy && value.kind === "generator";

const length: Filter = operation([], (value) =>
  BigInt(lengthOf(value) ?? fail(`a value of type ${typeName(value)} has no length`)),
);
const orElse: Filter = operation(["default_value?", "boolean?"], (value, otherwise = "", falsy = false) =>
  value instanceof Undefined || (truth(falsy) && !truth(value)) ? otherwise : value,
);

/** The path of `attribute=`: names and numbers between dots. */
function pathOf(attribute: Value | undefined): readonly Value[] {
  if (attribute === undefined || attribute === null) return [];
  if (typeof attribute === "bigint") return [attribute];
  const parts = (optionalText(attribute, "this argument") as string).split(".");
  return parts.map((part) => (/^\d+$/.test(part) ? BigInt(part) : part));
}

/** @param otherwise in place of what is undefined */
function at(value: Value, path: readonly Value[], otherwise?: Value): Value {
  let found = value;
  for (const part of path) {
    found = subscript(found, part);
    if (found instanceof Undefined && otherwise !== undefined) found = otherwise;
  }
  return found;
}

/** Texts are compared without their case unless it is wanted. */
const folded = (value: Value, withCase: Value | undefined): Value =>
  isText(value) && !truth(withCase ?? false) ? text(value).toLowerCase() : value;

/** By what items are compared. */
function keyBy(attribute: Value | undefined, withCase: Value | undefined): (one: Value) => Value {
  const path = pathOf(attribute);
  return (one) => folded(at(one, path), withCase);
}

function sorted(all: readonly Value[], keyOf: (one: Value) => Value, reverse: Value | undefined): Value[] {
  const sign = truth(reverse ?? false) ? -1 : 1;
  // Jinja compares lists of keys, and lists have an order where they are equal, whatever is in them.
  const order = (a: Value, b: Value) => (equal(a, b) ? 0 : sign * compare(a, b));
  const keyed = Array.from(all, (one) => ({ one, key: keyOf(one) }));
  return keyed.sort((a, b) => order(a.key, b.key)).map(({ one }) => one);
}

const extreme = (sign: 1 | -1): Filter =>
  operation(["case_sensitive?", "attribute?"], (value, withCase, attribute) => {
    const key = keyBy(attribute, withCase);
    const [first, ...rest] = items(value);
    if (first === undefined) return new Undefined("the extreme of nothing");
    return rest.reduce((best, one) => (sign * compare(key(one), key(best)) > 0 ? one : best), first);
  });

function intOf(value: Value, otherwise: Value, base: number): Value {
  if (typeof value === "bigint") return value;
  if (typeof value === "boolean") return BigInt(value);
  if (typeof value === "number") return Number.isFinite(value) ? BigInt(Math.trunc(value)) : otherwise;
  if (value instanceof Undefined) return fail(`${value.name} is undefined, so it is no number`);
  if (!isText(value)) return otherwise;
  if (base !== 10) return unsupported("the filter int with a base");
  const written = stripped(text(value), undefined, "both");
  if (/^[+-]?\d+(_\d+)*$/.test(written)) return BigInt(written.replace(/[+_]/g, ""));
  const real = floatOf(value, null);
  return typeof real === "number" && Number.isFinite(real) ? BigInt(Math.trunc(real)) : otherwise;
}

function floatOf(value: Value, otherwise: Value): Value {
  if (isNumber(value)) return Number(value);
  if (value instanceof Undefined) return fail(`${value.name} is undefined, so it is no number`);
  if (!isText(value)) return otherwise;
  const written = stripped(text(value), undefined, "both").replace(/(?<=\d)_(?=\d)/g, "");
  if (/^[+-]?(inf|infinity|nan)$/i.test(written)) return unsupported("the filter float of such a text");
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(written) ? Number(written) : otherwise;
}

/** `indent` of Jinja, which ends all lines alike. */
function indented(whole: string, by: string, first: boolean, blank: boolean): string {
  // Jinja adds this line's end to have the last empty line.
  const lines = linesOf(`${whole}\n`);
  const all = lines.map((line, index) => (index === 0 || (line === "" && !blank) ? line : by + line)).join("\n");
  return first ? by + all : all;
}

/** Python's `%` of a text, for `%s` and `%%`. */
function formatted(form: string, values: readonly (Value | undefined)[]): string {
  const given = values.filter((value) => value !== undefined);
  let taken = 0;
  const written = form.replace(/%([\s\S]?)/g, (all, kind: string) => {
    if (kind === "%") return kind;
    if (kind !== "s") return unsupported(`${all} in the filter format`);
    const value = given[taken++];
    return value === undefined ? fail("a text is formatted with too few values") : text(value);
  });
  return taken < given.length ? fail("a text is formatted with too many values") : written;
}

function jsonIndent(indent: Value | undefined): string | null {
  if (indent === undefined || indent === null) return null;
  if (isText(indent)) return text(indent);
  return " ".repeat(Math.max(0, wholeNumber(indent, 0, "indent")));
}

function jsonSeparators(given: Value | undefined): readonly [string, string] | null {
  if (given === undefined || given === null) return null;
  const [item, key, more] = items(given);
  if (typeof item !== "string" || typeof key !== "string" || more !== undefined) {
    return fail("the separators of tojson must be two texts");
  }
  return [item, key];
}

/** `select`, `reject`, `selectattr` and `rejectattr`: the items for which a test holds, or does not. */
const selecting =
  (wanted: boolean, byAttribute: boolean): Filter =>
  (name, value, args, keywords) => {
    if (keywords.size > 0) return unsupported(`${name} with named arguments`);
    const path = byAttribute ? pathOf(args[0] ?? fail(`${name} needs the name of an attribute`)) : [];
    const [test, ...rest] = byAttribute ? args.slice(1) : args;
    if (!truth(value)) return generator([]);
    const picks = (one: Value) => {
      const looked = at(one, path);
      return test === undefined ? truth(looked) : holds(text(test), looked, rest);
    };
    return generator(items(value).filter((one) => picks(one) === wanted));
  };

/** `map(attribute="a", default=...)` and `map("filter", ...)`. */
const mapped: Filter = (_, value, [name, ...rest], keywords) => {
  if (!truth(value)) return generator([]);
  if (name !== undefined) return generator(items(value).map((one) => filtered(text(name), one, rest, keywords)));
  const path = pathOf(keywords.get("attribute") ?? fail("map needs a filter or an attribute"));
  return generator(items(value).map((one) => at(one, path, keywords.get("default"))));
};

const filters: Readonly<Record<string, Filter>> = {
  abs: operation([], (value) => {
    if (!isNumber(value)) return fail(`a value of type ${typeName(value)} has no absolute value`);
    const number = numberOf(value);
    return typeof number === "number" ? Math.abs(number) : number < 0n ? -number : number;
  }),
  capitalize: operation([], (value) => capitalized(text(value))),
  count: length,
  d: orElse,
  default: orElse,
  dictsort: operation(["case_sensitive?", "by?", "reverse?"], (value, withCase, by = "key", reverse) => {
    if (!isDict(value)) return fail("dictsort is for a dict");
    if (by !== "key" && by !== "value") return fail("dictsort is by key or by value");
    const place = by === "key" ? 0n : 1n;
    return sorted(pairsOf(value), (pair) => folded(subscript(pair, place), withCase), reverse);
  }),
  first: operation([], (value) => orUndefined(items(value)[0], "the first of nothing")),
  float: operation(["default?"], (value, otherwise = 0) => floatOf(value, otherwise)),
  // By place alone: no name begins with a digit.
  format: operation(["0?", "1?", "2?", "3?", "4?", "5?", "6?", "7?"], (value, ...values) =>
    value instanceof Markup ? unsupported("the filter format of a safe text") : formatted(text(value), values),
  ),
  indent: operation(["width?", "first?", "blank?"], (value, width = 4n, first = false, blank = false) =>
    indented(
      isText(value) ? text(value) : fail(`a value of type ${typeName(value)} cannot be indented`),
      isText(width) ? text(width) : " ".repeat(wholeNumber(width, 4, "the width")),
      truth(first),
      truth(blank),
    ),
  ),
  int: operation(["default?", "base?"], (value, otherwise = 0n, base) =>
    intOf(value, otherwise, wholeNumber(base, 10, "the base")),
  ),
  items: operation([], (value) => {
    if (value instanceof Undefined) return generator([]);
    return isDict(value) ? generator(pairsOf(value)) : fail("items is for a dict");
  }),
  join: operation(["d?", "attribute?"], (value, between = "", attribute) => {
    const path = pathOf(attribute);
    return items(value)
      .map((one) => text(at(one, path)))
      .join(text(between));
  }),
  last: operation([], (value) =>
    isGenerator(value)
      ? fail("a lazy sequence has no last item before it is a list")
      : orUndefined(items(value).at(-1), "the last of nothing"),
  ),
  length,
  list: operation([], (value) => [...items(value)]),
  lower: operation([], (value) => text(value).toLowerCase()),
  map: mapped,
  max: extreme(1),
  min: extreme(-1),
  reject: selecting(false, false),
  rejectattr: selecting(false, true),
  replace: operation(["old", "new", "count?"], (value, old, by, count) =>
    replaced(
      text(value),
      text(old as Value),
      text(by as Value),
      count === null ? -1 : wholeNumber(count, -1, "the count"),
    ),
  ),
  reverse: operation([], (value) => {
    if (isText(value)) return [...characters(text(value))].reverse().join("");
    if (isGenerator(value)) return fail("a lazy sequence cannot be reversed before it is a list");
    return generator([...items(value)].reverse());
  }),
  safe: operation([], (value) => new Markup(text(value))),
  select: selecting(true, false),
  selectattr: selecting(true, true),
  sort: operation(["reverse?", "case_sensitive?", "attribute?"], (value, reverse, withCase, attribute) => {
    if (typeof attribute === "string" && attribute.includes(",")) return unsupported("sort by several attributes");
    return sorted(items(value), keyBy(attribute, withCase), reverse);
  }),
  string: operation([], (value) => (value instanceof Markup ? value : text(value))),
  title: operation([], (value) =>
    text(value)
      .split(/([-\s({[<]+)/)
      .map((word) => {
        const [first = "", ...rest] = characters(word);
        return first.toUpperCase() + rest.join("").toLowerCase();
      })
      .join(""),
  ),
  tojson: operation(
    ["ensure_ascii?", "indent?", "separators?", "sort_keys?"],
    (value, ascii = false, indent, separators, sortKeys = false) =>
      jsonText(value, {
        asciiOnly: truth(ascii),
        indent: jsonIndent(indent),
        separators: jsonSeparators(separators),
        sortKeys: truth(sortKeys),
      }),
  ),
  trim: operation(["chars?"], (value, chars) => stripped(text(value), optionalText(chars, "this argument"), "both")),
  unique: operation(["case_sensitive?", "attribute?"], (value, withCase, attribute) => {
    const all = items(value).map((one) => ({ one, key: keyBy(attribute, withCase)(one) }));
    const isFirst = ({ key }: (typeof all)[number], index: number) =>
      all.findIndex((other) => equal(other.key, hashable(key))) === index;
    return generator(all.filter(isFirst).map(({ one }) => one));
  }),
  upper: operation([], (value) => text(value).toUpperCase()),
};

/** @throws TemplateError for a filter that hone lacks, and for values and arguments that it does not take */
export function filtered(name: string, value: Value, args: readonly Value[], keywords: Keywords): Value {
  const known = (Object.hasOwn(filters, name) ? filters[name] : undefined) ?? unsupported(`the filter ${name}`);
  return known(`the filter ${name}`, value, args, keywords);
}
