/**
 * What several JSON Schemas demand together (`allOf`, keywords beside `$ref` or `anyOf`), as one schema. Lists of patterns and
 * formats, which JSON Schema does not have, are demanded together.
 */
import { toJson } from "../core/util/json.js";
import { isFields as isObject } from "./openai/fields.js";

export type Json = Readonly<Record<string, unknown>>;

/** @param notEnforced told a keyword of the second schema that is left out */
export type Unmerged = (keyword: string, why: string) => void;

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : [value]);
const isReference = (value: unknown, to: unknown) =>
  isObject(value) && value.$ref === to && to !== undefined && Object.keys(value).length === 1;
const isSame = (a: unknown, b: unknown) => a === b || (isObject(a) && isReference(a, a.$ref) && isReference(b, a.$ref));

/** Both schemas, in one list: nested ones would be as deep as they are many, and what is the same would double with each turn. */
function both(a: unknown, b: unknown): unknown {
  const list = isObject(a) && Array.isArray(a.allOf) && Object.keys(a).length === 1 ? (a.allOf as unknown[]) : [a];
  if (list.some((one) => isSame(one, b))) return a;
  return { allOf: [...list, b] };
}
const least = (a: unknown, b: unknown) => ((a as number) < (b as number) ? a : b);
const greatest = (a: unknown, b: unknown) => ((a as number) > (b as number) ? a : b);

function types(a: unknown, b: unknown): unknown[] {
  const wide = (list: unknown[]) => (list.includes("number") ? [...list, "integer"] : list);
  const [one, other] = [listOf(a), listOf(b)];
  const common = wide(one).filter((type) => wide(other).includes(type));
  return common.includes("number") ? common.filter((type) => type !== "integer") : [...new Set(common)];
}

const values = (a: unknown, b: unknown) => {
  const known = new Set(listOf(b).map((value) => toJson(value)));
  return listOf(a).filter((value) => known.has(toJson(value)));
};

function properties(a: unknown, b: unknown): unknown {
  if (!isObject(a) || !isObject(b)) return a;
  // No assignments: a property may be called __proto__.
  const common = Object.entries(b).map(([name, schema]) => [
    name,
    Object.hasOwn(a, name) ? both(a[name], schema) : schema,
  ]);
  return { ...a, ...Object.fromEntries(common) };
}

const MERGED = new Map<string, (a: unknown, b: unknown) => unknown>(
  Object.entries({
    type: types,
    enum: values,
    properties,
    required: (a, b) => [...new Set([...listOf(a), ...listOf(b)])],
    additionalProperties: (a, b) => (a === false || b === false ? false : a === true ? b : b === true ? a : both(a, b)),
    items: both,
    pattern: (a, b) => [...listOf(a), ...listOf(b)],
    format: (a, b) => [...new Set([...listOf(a), ...listOf(b)])],
    uniqueItems: (a, b) => a === true || b === true,
    ...Object.fromEntries(
      ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"].map((name) => [name, greatest]),
    ),
    ...Object.fromEntries(
      ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"].map((name) => [name, least]),
    ),
  }),
);

/** `const` as an `enum` of one. */
const withEnum = ({ const: value, ...rest }: Json): Json =>
  value === undefined ? rest : merge(rest, { enum: [value] });

/** @param unmerged told a keyword of `b` that is left out */
export function merge(a: Json, b: Json, unmerged: Unmerged = () => undefined): Json {
  const result = new Map(Object.entries("const" in a ? withEnum(a) : a));
  for (const [keyword, value] of Object.entries("const" in b ? withEnum(b) : b)) {
    const before = result.get(keyword);
    const merged = MERGED.get(keyword);
    if (before === undefined) result.set(keyword, value);
    else if (merged) result.set(keyword, merged(before, value));
    else if (toJson(before) !== toJson(value)) unmerged(keyword, "another part of the schema has it too");
  }
  for (const [one, other] of [
    [a, b],
    [b, a],
  ] as const) {
    const known = isObject(one.properties) ? one.properties : {};
    const names = isObject(other.properties) ? Object.keys(other.properties) : [];
    if (one.additionalProperties === false && "properties" in one && names.some((name) => !Object.hasOwn(known, name)))
      unmerged("additionalProperties", "another part of the schema has more properties");
  }
  return Object.fromEntries(result);
}
