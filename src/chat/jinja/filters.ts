/** Jinja's filters, and `tojson` as transformers has it. */
import { orUndefined, subscript } from "./access.js";
import { jsonText } from "./json.js";
import { capitalized, linesOf, optionalText, replaced, stripped, wholeNumber } from "./methods.js";
import { apply, type Operation } from "./signature.js";
import { holds } from "./tests.js";
import {
  characters,
  compare,
  equal,
  fail,
  Generator,
  hashable,
  isDict,
  isNumber,
  isText,
  items,
  type Keywords,
  lengthOf,
  Markup,
  Tuple,
  text,
  truth,
  typeName,
  Undefined,
  unsupported,
  type Value,
} from "./values.js";

type Filter = Operation<Value>;

const filter = (parameters: readonly string[], run: Filter["run"]): Filter => ({ parameters, run });

const length = filter([], (value) =>
  BigInt(lengthOf(value) ?? fail(`a value of type ${typeName(value)} has no length`)),
);
const orElse = filter(["default_value?", "boolean?"], (value, otherwise = "", falsy = false) =>
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

function sorted(all: readonly Value[], keyOf: (one: Value) => Value, reverse: Value | undefined): Value[] {
  const sign = truth(reverse ?? false) ? -1 : 1;
  return (
    all
      .map((one) => ({ one, key: keyOf(one) }))
      // Jinja compares lists of keys, and lists have an order where they are equal, whatever is in them.
      .sort((a, b) => (equal(a.key, b.key) ? 0 : sign * compare(a.key, b.key)))
      .map(({ one }) => one)
  );
}

const extreme = (sign: 1 | -1) =>
  filter(["case_sensitive?", "attribute?"], (value, withCase, attribute) => {
    const path = pathOf(attribute);
    const key = (one: Value) => folded(at(one, path), withCase);
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

const filters: Readonly<Record<string, Filter>> = {
  abs: filter([], (value) => {
    if (typeof value === "number") return Math.abs(value);
    if (typeof value === "bigint") return value < 0n ? -value : value;
    return typeof value === "boolean"
      ? BigInt(value)
      : fail(`a value of type ${typeName(value)} has no absolute value`);
  }),
  capitalize: filter([], (value) => capitalized(text(value))),
  count: length,
  d: orElse,
  default: orElse,
  dictsort: filter(["case_sensitive?", "by?", "reverse?"], (value, withCase, by = "key", reverse) => {
    if (!isDict(value)) return fail("dictsort is for a dict");
    if (by !== "key" && by !== "value") return fail("dictsort is by key or by value");
    const pairs = [...value].map((entry) => new Tuple(entry));
    const place = by === "key" ? 0 : 1;
    return sorted(pairs, (pair) => folded((pair as Tuple).items[place] as Value, withCase), reverse);
  }),
  first: filter([], (value) => orUndefined(items(value)[0], "the first of nothing")),
  float: filter(["default?"], (value, otherwise = 0) => floatOf(value, otherwise)),
  // By place alone: no name begins with a digit.
  format: filter(["0?", "1?", "2?", "3?", "4?", "5?", "6?", "7?"], (value, ...values) =>
    value instanceof Markup ? unsupported("the filter format of a safe text") : formatted(text(value), values),
  ),
  indent: filter(["width?", "first?", "blank?"], (value, width = 4n, first = false, blank = false) =>
    indented(
      isText(value) ? text(value) : fail(`a value of type ${typeName(value)} cannot be indented`),
      isText(width) ? text(width) : " ".repeat(wholeNumber(width, 4, "the width")),
      truth(first),
      truth(blank),
    ),
  ),
  int: filter(["default?", "base?"], (value, otherwise = 0n, base) =>
    intOf(value, otherwise, wholeNumber(base, 10, "the base")),
  ),
  items: filter([], (value) => {
    if (value instanceof Undefined) return new Generator([]);
    return isDict(value) ? new Generator([...value].map((entry) => new Tuple(entry))) : fail("items is for a dict");
  }),
  join: filter(["d?", "attribute?"], (value, between = "", attribute) => {
    const path = pathOf(attribute);
    return items(value)
      .map((one) => text(at(one, path)))
      .join(text(between));
  }),
  last: filter([], (value) =>
    value instanceof Generator
      ? fail("a lazy sequence has no last item before it is a list")
      : orUndefined(items(value).at(-1), "the last of nothing"),
  ),
  length,
  list: filter([], (value) => [...items(value)]),
  lower: filter([], (value) => text(value).toLowerCase()),
  max: extreme(1),
  min: extreme(-1),
  replace: filter(["old", "new", "count?"], (value, old, by, count) =>
    replaced(
      text(value),
      text(old as Value),
      text(by as Value),
      count === null ? -1 : wholeNumber(count, -1, "the count"),
    ),
  ),
  reverse: filter([], (value) => {
    if (isText(value)) return [...characters(text(value))].reverse().join("");
    if (value instanceof Generator) return fail("a lazy sequence cannot be reversed before it is a list");
    return new Generator([...items(value)].reverse());
  }),
  safe: filter([], (value) => new Markup(text(value))),
  sort: filter(["reverse?", "case_sensitive?", "attribute?"], (value, reverse, withCase, attribute) => {
    if (typeof attribute === "string" && attribute.includes(",")) return unsupported("sort by several attributes");
    const path = pathOf(attribute);
    return sorted(items(value), (one) => folded(at(one, path), withCase), reverse);
  }),
  string: filter([], (value) => (value instanceof Markup ? value : text(value))),
  title: filter([], (value) =>
    text(value)
      .split(/([-\s({[<]+)/)
      .map((word) => {
        const [first = "", ...rest] = characters(word);
        return first.toUpperCase() + rest.join("").toLowerCase();
      })
      .join(""),
  ),
  tojson: filter(
    ["ensure_ascii?", "indent?", "separators?", "sort_keys?"],
    (value, ascii = false, indent, separators, sortKeys = false) =>
      jsonText(value, {
        asciiOnly: truth(ascii),
        indent: jsonIndent(indent),
        separators: jsonSeparators(separators),
        sortKeys: truth(sortKeys),
      }),
  ),
  trim: filter(["chars?"], (value, chars) => stripped(text(value), optionalText(chars, "this argument"), "both")),
  unique: filter(["case_sensitive?", "attribute?"], (value, withCase, attribute) => {
    const path = pathOf(attribute);
    const kept: { one: Value; key: Value }[] = [];
    for (const one of items(value)) {
      const key = hashable(folded(at(one, path), withCase));
      if (!kept.some((other) => equal(other.key, key))) kept.push({ one, key });
    }
    return new Generator(kept.map(({ one }) => one));
  }),
  upper: filter([], (value) => text(value).toUpperCase()),
};

/** `select`, `reject`, `selectattr` and `rejectattr`: the items for which a test holds, or does not. */
function selected(name: string, value: Value, args: readonly Value[]): Value {
  const byAttribute = name.endsWith("attr");
  const path = byAttribute ? pathOf(args[0] ?? fail(`${name} needs the name of an attribute`)) : [];
  const [test, ...rest] = byAttribute ? args.slice(1) : args;
  if (!truth(value)) return new Generator([]);
  const wanted = name.startsWith("select");
  const picks = (one: Value) => {
    const looked = at(one, path);
    return test === undefined ? truth(looked) : holds(text(test), looked, rest);
  };
  return new Generator(items(value).filter((one) => picks(one) === wanted));
}

/** `map(attribute="a", default=...)` and `map("filter", ...)`. */
function mapped(value: Value, args: readonly Value[], keywords: Keywords): Value {
  if (!truth(value)) return new Generator([]);
  const [name, ...rest] = args;
  if (name !== undefined) return new Generator(items(value).map((one) => filtered(text(name), one, rest, keywords)));
  const attribute = keywords.get("attribute") ?? fail("map needs a filter or an attribute");
  const path = pathOf(attribute);
  return new Generator(items(value).map((one) => at(one, path, keywords.get("default"))));
}

/** @throws TemplateError for a filter that hone lacks, and for values and arguments that it does not take */
export function filtered(name: string, value: Value, args: readonly Value[], keywords: Keywords): Value {
  if (["select", "reject", "selectattr", "rejectattr"].includes(name)) {
    if (keywords.size > 0) return unsupported(`the filter ${name} with named arguments`);
    return selected(name, value, args);
  }
  if (name === "map") return mapped(value, args, keywords);
  const known = (Object.hasOwn(filters, name) ? filters[name] : undefined) ?? unsupported(`the filter ${name}`);
  return apply(`the filter ${name}`, known, value, args, keywords);
}
