/**
 * Values that stand as text, without JSON's quotes, where the schema of a parameter alone says whether `42` is a number or a text:
 * as vLLM's parsers of Qwen3-Coder's calls convert them, and as its templates write them, Python's `True` and `None` beside JSON.
 */
import { referred } from "../pointer.js";
import { parsed } from "./format.js";
import { Literals, writtenLiteral } from "./python-literals.js";

/** References that are followed one behind another. */
const MOST_REFERENCES = 16;

/** Names of types that schemas have besides JSON Schema's, by their beginnings. */
const ALIASES: readonly (readonly [RegExp, string])[] = [
  [/^(int|uint|long|short|unsigned)/, "integer"],
  [/^(num|float|double)/, "number"],
  [/^bool/, "boolean"],
  [/^(obj|dict)/, "object"],
  [/^(arr|list)/, "array"],
  [/^null$/, "null"],
];
const typeNamed = (name: unknown): string =>
  ALIASES.find(([pattern]) => pattern.test(String(name).toLowerCase()))?.[1] ?? "string";

/** What a schema lets pass, in its order. */
interface Allowed {
  readonly types: readonly string[];
  readonly values: readonly unknown[];
}

const listOf = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? value : value === undefined ? [] : [value];

function allowedBy(schema: unknown, root: object, left = MOST_REFERENCES): Allowed {
  if (typeof schema !== "object" || schema === null || left === 0) return { types: [], values: [] };
  const { $ref, type, enum: values, anyOf, oneOf, allOf, ...others } = schema as Record<string, unknown>;
  const more = typeof $ref === "string" ? [referred(root, $ref)] : [];
  const parts = [...more, ...[anyOf, oneOf, allOf].flatMap(listOf)].map((one) => allowedBy(one, root, left - 1));
  return {
    types: [...listOf(type).map(typeNamed), ...parts.flatMap((one) => one.types)],
    values: [...listOf(values), ...("const" in others ? [others.const] : []), ...parts.flatMap((one) => one.values)],
  };
}

/** Schemas of the properties that a tool's parameters name. */
export function propertiesOf(
  schema: unknown,
  root = schema,
  left = MOST_REFERENCES,
): Readonly<Record<string, unknown>> {
  if (typeof schema !== "object" || schema === null || left === 0) return {};
  const { $ref, allOf, properties } = schema as Record<string, unknown>;
  const parts = [...(typeof $ref === "string" ? [referred(root, $ref)] : []), ...listOf(allOf)];
  const all = [...parts.map((one) => propertiesOf(one, root, left - 1)), properties];
  return Object.fromEntries(all.flatMap((one) => (typeof one === "object" && one !== null ? Object.entries(one) : [])));
}

const kindOf = (value: unknown): string => {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value === "bigint" ? "number" : typeof value;
};

/** The value of a text that is JSON or a Python literal; undefined where it is neither. */
function literalOf(text: string): unknown {
  const json = parsed(text);
  if (json !== undefined) return json;
  try {
    const reader = new Literals(text, 0);
    const value = reader.value();
    return reader.at === text.length ? value : undefined;
  } catch {
    // Neither: the text is the value.
    return undefined;
  }
}

/** Whether a value has a type of JSON Schema. */
export function isOf(value: unknown, type: string): boolean {
  const kind = kindOf(value);
  if (kind !== "number") return kind === type;
  const finite = typeof value === "bigint" || Number.isFinite(value);
  return (
    finite && (type === "number" || (type === "integer" && (typeof value === "bigint" || Number.isInteger(value))))
  );
}

/** A value as the templates write it: a text as it is, constants as Python does. @param json writes all others */
export function bareText(value: unknown, json: (value: unknown) => string): string {
  if (typeof value === "string") return value;
  return value === null || typeof value === "boolean" ? writtenLiteral(value) : json(value);
}

/**
 * The value that a text stands for: of the schema's values or types the first that it can be. A text that is none of them is
 * itself, for the tool to refuse; so is each where the schema says nothing of its type.
 *
 * @param schema of the parameter; undefined where the tool has none of that name
 * @param root the schema within which its references lead
 */
export function typedValue(text: string, schema: unknown, root: object): unknown {
  const { types, values } = allowedBy(schema, root);
  const inner = text.trim();
  const value = literalOf(/^(true|false)$/i.test(inner) ? inner.toLowerCase() : inner);
  const found = values.findIndex((one) => one === (typeof one === "string" ? text : value));
  if (found >= 0) return values[found];
  const all = types.length > 0 ? types : values.map(kindOf);
  const isNull = /^(null|none)$/i.test(inner);
  if (isNull && all.includes("null")) return null;
  for (const type of all) {
    if (type === "string") return text;
    if (value !== undefined && isOf(value, type)) return value;
  }
  // What the templates write for a parameter that was not given.
  return isNull && all.length > 0 ? null : text;
}
