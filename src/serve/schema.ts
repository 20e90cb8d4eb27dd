/**
 * JSON Schemas that a grammar can enforce, in the few keywords that the converter of the engine's grammars knows. Any other
 * keyword is refused by its name: the converter would leave it out.
 */

/** Keywords that no value has to obey. */
const ANNOTATIONS = new Set(
  "title description default examples example deprecated readOnly writeOnly $schema $id $comment $defs definitions".split(
    " ",
  ),
);
/** Repetitions that llama.cpp's grammars can count. */
const MOST_COUNT = 1000;
/** Parts of a schema with its references resolved: more would take seconds to convert. */
const MOST_PARTS = 4096;
const FORMATS = new Set(["date-time", "date", "time"]);
const SCALARS = ["string", "number", "integer", "boolean", "null"];

type Json = Readonly<Record<string, unknown>>;

/** A part of a schema that no grammar of ours expresses. */
export class Unenforceable extends Error {
  /** @param path of the part, "" for the schema itself */
  constructor(path: string, keyword: string, why: string) {
    super(`${path === "" ? "" : `at ${path}: `}'${keyword}' cannot be enforced: ${why}`);
  }
}

/** Any JSON value. */
const ANYTHING = {
  oneOf: [
    { type: ["string", "number", "boolean", "null"] },
    { type: "object", additionalProperties: true },
    { type: "array" },
  ],
};

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const typeOf = (value: unknown): string => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);

const fits = (value: unknown, types: readonly string[]) =>
  types.includes(typeOf(value)) ||
  (typeof value === "number" && (types.includes("number") || (types.includes("integer") && Number.isInteger(value))));

/** Resolves a reference within the schema; undefined where it leads nowhere. */
function referred(root: unknown, reference: string): unknown {
  if (!/^#(\/|$)/.test(reference)) return undefined;
  const steps = reference.split("/").slice(1);
  return steps.reduce<unknown>((at, step) => {
    if (typeof at !== "object" || at === null) return undefined;
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    return Object.hasOwn(at, name) ? (at as Json)[name] : undefined;
  }, root);
}

class Reader {
  readonly #root: unknown;
  readonly #open = new Set<string>();
  #parts = 0;

  constructor(root: unknown) {
    this.#root = root;
  }

  read(schema: unknown, path: string): object {
    if (++this.#parts > MOST_PARTS) {
      throw new Unenforceable(path, "$ref", `the schema has more than ${MOST_PARTS} parts, references resolved`);
    }
    if (schema === true) return ANYTHING;
    if (!isObject(schema)) throw new Unenforceable(path, String(schema), "it lets no value pass");
    const keys = Object.keys(schema).filter((key) => schema[key] !== undefined && !ANNOTATIONS.has(key));
    const alone = (keyword: string, with_: readonly string[] = []) => {
      const other = keys.find((key) => key !== keyword && !with_.includes(key));
      if (other !== undefined) throw new Unenforceable(path, other, `it stands beside '${keyword}'`);
    };
    if (keys.length === 0) return ANYTHING;
    if (keys.includes("$ref")) {
      alone("$ref");
      return this.#reference(schema.$ref, path);
    }
    for (const keyword of ["anyOf", "oneOf", "allOf"]) {
      if (!keys.includes(keyword)) continue;
      alone(keyword);
      return this.#alternatives(keyword, schema[keyword], path);
    }
    const types = this.#types(schema, path);
    for (const keyword of ["const", "enum"]) {
      if (!keys.includes(keyword)) continue;
      alone(keyword, ["type"]);
      const values: unknown = keyword === "const" ? [schema.const] : schema.enum;
      return this.#values(keyword, values, types, path);
    }
    return this.#typed(schema, types ?? this.#implied(keys, path), keys, path);
  }

  #reference(reference: unknown, path: string): object {
    const text = String(reference);
    const to = referred(this.#root, text);
    if (to === undefined) throw new Unenforceable(path, "$ref", `${text} leads nowhere within the schema`);
    if (this.#open.has(text)) throw new Unenforceable(path, "$ref", `${text} leads back to where it stands`);
    this.#open.add(text);
    const read = this.read(to, path);
    this.#open.delete(text);
    return read;
  }

  #alternatives(keyword: string, list: unknown, path: string): object {
    if (!Array.isArray(list) || list.length === 0) throw new Unenforceable(path, keyword, "it is no list of schemas");
    const read = list.map((one, index) => this.read(one, join(path, `${keyword}.${index}`)));
    if (read.length === 1) return read[0] as object;
    if (keyword === "allOf") throw new Unenforceable(path, keyword, "a grammar expresses alternatives alone");
    return { oneOf: read };
  }

  #types({ type }: Json, path: string): string[] | undefined {
    if (type === undefined) return undefined;
    const types: unknown[] = Array.isArray(type) ? type : [type];
    const known = [...SCALARS, "object", "array"];
    if (types.length > 0 && types.every((one) => known.includes(one as string))) return types as string[];
    throw new Unenforceable(path, "type", `${JSON.stringify(type)} is no type of JSON`);
  }

  #implied(keys: readonly string[], path: string): string[] {
    if (keys.some((key) => ["properties", "required", "additionalProperties"].includes(key))) return ["object"];
    throw new Unenforceable(path, keys[0] as string, "there is no 'type' beside it, or the keyword is not known here");
  }

  #values(keyword: string, values: unknown, types: readonly string[] | undefined, path: string): object {
    if (!Array.isArray(values) || values.length === 0) throw new Unenforceable(path, keyword, "it has no values");
    const fitting = types ? values.filter((value) => fits(value, types)) : values;
    if (fitting.length === 0) throw new Unenforceable(path, keyword, "none of its values has the type");
    if (fitting.some((value) => typeof value === "object" && value !== null)) {
      throw new Unenforceable(path, keyword, "only texts, numbers, booleans and null can be values");
    }
    return { enum: fitting };
  }

  #typed(schema: Json, types: readonly string[], keys: readonly string[], path: string): object {
    const allowed = new Set(["type"]);
    const read = types.map((type) => {
      if (type === "object") return this.#object(schema, allowed, path);
      if (type === "array") return this.#array(schema, allowed, path);
      return type === "string" ? this.#string(schema, allowed, path) : { type };
    });
    const unknown = keys.find((key) => !allowed.has(key));
    if (unknown !== undefined) {
      throw new Unenforceable(path, unknown, `a grammar does not express it for ${types.join(" or ")}`);
    }
    return read.length === 1 ? (read[0] as object) : { oneOf: read };
  }

  #object(schema: Json, allowed: Set<string>, path: string): object {
    for (const key of ["properties", "required", "additionalProperties"]) allowed.add(key);
    const { properties = {}, required = [], additionalProperties: others } = schema;
    if (!isObject(properties)) throw new Unenforceable(path, "properties", "it is no object");
    if (!Array.isArray(required)) throw new Unenforceable(path, "required", "it is no list of names");
    const names = Object.keys(properties);
    const optional = names.find((name) => !required.includes(name));
    if (optional !== undefined) {
      const why = `all properties have to be in it, and ${optional} is not; let a property be null instead of absent`;
      throw new Unenforceable(path, "required", why);
    }
    const missing = required.find((name) => !names.includes(name as string));
    if (missing !== undefined) {
      throw new Unenforceable(path, "required", `'properties' does not describe ${String(missing)}`);
    }
    if (names.length === 0 && "properties" in schema && others === undefined) return { type: "object" };
    if (names.length === 0 && others !== false) {
      const each = others === undefined || others === true || this.read(others, join(path, "additionalProperties"));
      return { type: "object", additionalProperties: each };
    }
    // Properties beyond the declared ones are never written, which every value of `additionalProperties` allows.
    const read = names.map((name) => [name, this.read(properties[name], join(path, `properties.${name}`))]);
    return { type: "object", properties: Object.fromEntries(read) };
  }

  #array(schema: Json, allowed: Set<string>, path: string): object {
    for (const key of ["items", "minItems", "maxItems"]) allowed.add(key);
    const counts = this.#counts(schema, "minItems", "maxItems", path);
    const { items } = schema;
    return items === undefined
      ? { type: "array", ...counts }
      : { type: "array", items: this.read(items, join(path, "items")), ...counts };
  }

  #string(schema: Json, allowed: Set<string>, path: string): object {
    const { format } = schema;
    allowed.add("format");
    if (format !== undefined) {
      if (typeof format === "string" && FORMATS.has(format)) return { type: "string", format };
      throw new Unenforceable(path, "format", `only ${[...FORMATS].join(", ")} have a grammar`);
    }
    for (const key of ["minLength", "maxLength"]) allowed.add(key);
    return { type: "string", ...this.#counts(schema, "minLength", "maxLength", path) };
  }

  #counts(schema: Json, least: string, most: string, path: string): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const key of [least, most]) {
      const value = schema[key];
      if (value === undefined) continue;
      if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > MOST_COUNT) {
        throw new Unenforceable(path, key, `it has to be a whole number up to ${MOST_COUNT}`);
      }
      counts[key] = value as number;
    }
    if ((counts[least] ?? 0) > (counts[most] ?? Number.POSITIVE_INFINITY)) {
      throw new Unenforceable(path, most, `it is below '${least}'`);
    }
    return counts;
  }
}

const join = (path: string, step: string) => (path === "" ? step : `${path}.${step}`);

/**
 * The same schema as the converter takes it, without references.
 *
 * @throws Unenforceable for a keyword that a grammar does not express
 */
export const enforceable = (schema: unknown): object => new Reader(schema).read(schema, "");
