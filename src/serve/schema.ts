/**
 * JSON Schemas as rules of a grammar. What a grammar does not express is left out, and named: the rules never let pass what
 * the rest of the schema refuses. A schema that is none is refused.
 *
 * A schema is read as its alternatives, each of which has neither references nor combinations left: what all parts demand is merged.
 */

import { isOf } from "../chat/formats/typed-text.js";
import { referred } from "../chat/pointer.js";
import type { FieldTag } from "../core/rollout/conversation.js";
import { toJson } from "../core/util/json.js";
import { type Language, Languages, setOf, Unwritable } from "./automata.js";
import { patternOf, textsOf } from "./expressions.js";
import { type Json, merge } from "./merge.js";
import { isFields as isObject } from "./openai/fields.js";
import { numbers, within } from "./ranges.js";
import { literal, type Rules, UNWRITTEN } from "./rules.js";

/** Keywords that no value has to obey. */
const ANNOTATIONS = new Set(
  "title description default examples example deprecated readOnly writeOnly $schema $id $anchor $comment $defs definitions discriminator externalDocs contentEncoding contentMediaType contentSchema".split(
    " ",
  ),
);
/** Repetitions that llama.cpp's grammars can count: each is a rule of its own there. */
const MOST_COUNT = 1000;
/** Of all repetitions of a grammar together. */
const MOST_REPEATED = 20_000;
/** Whole numbers by which a grammar divides: each remainder is a state. */
const MOST_DIVISOR = 1000;
/** Parts of a schema with its references resolved: more would take seconds to convert. */
const MOST_PARTS = 4096;
/** Optional properties of an object: each of them may be followed by each further one. */
const MOST_OPTIONAL = 64;
/** Alternatives of two lists, each with each, at most. */
const MOST_PAIRS = 64;
/** Levels of a schema with its references resolved. */
const MOST_LEVELS = 256;
/** States of the automata in a grammar together. */
const MOST_STATES = 4000;
const TOO_MANY = "the schema has too many of its kind";
/** Characters of a place that are told. */
const MOST_PATH = 200;
/** Parts that are told to be left out. */
const MOST_TOLD = 32;
const TYPES = ["string", "number", "integer", "boolean", "null", "object", "array"];

/** Keywords by the type that they are for. Others have no effect on a value of another type. */
const KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  object: [
    "properties",
    "required",
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
  ],
  array: [
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
  ],
  string: ["minLength", "maxLength", "pattern", "format"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
};
/** Keywords by which a schema is made of others. */
const COMBINING = ["$ref", "allOf", "anyOf", "oneOf"];
const ALL_KEYWORDS = new Set(Object.values(KEYWORDS).flat());

const OFFSET = "(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
const DAY =
  "(?!0000)(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
const TIME = "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?";
/** Shorter than the 63 characters that a label of a host may have: every character is a state. */
const LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
const BYTE = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const PATH = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
/** Formats as regular expressions. Each lets pass what the common validators take, if not all of it. */
const FORMATS: Readonly<Record<string, string>> = {
  date: DAY,
  time: `${TIME}${OFFSET}`,
  "date-time": `${DAY}T${TIME}${OFFSET}`,
  duration:
    "P(?=\\d|T\\d)(?:\\d{1,4}W|(?:\\d{1,4}Y)?(?:\\d{1,4}M)?(?:\\d{1,4}D)?(?:T(?=\\d)(?:\\d{1,4}H)?(?:\\d{1,4}M)?(?:\\d{1,4}S)?)?)",
  email: `[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,15}){0,2}@(?:${LABEL}\\.){1,3}[A-Za-z]{2,10}`,
  base64: "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
  hostname: `${LABEL}(?:\\.${LABEL}){0,3}`,
  ipv4: `${BYTE}(?:\\.${BYTE}){3}`,
  ipv6: "(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4})|::(?:[0-9A-Fa-f]{1,4})?",
  uuid: "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}",
  uri: `[a-zA-Z][a-zA-Z0-9+.-]{0,9}://${LABEL}(?:\\.${LABEL}){0,3}(?::[1-9]\\d{0,3})?(?:/${PATH}*)*(?:\\?(?:${PATH}|[/?])*)?(?:#(?:${PATH}|[/?])*)?`,
};

const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;
const isNumber = (value: unknown): value is number | bigint => typeof value === "bigint" || Number.isFinite(value);

/** A schema, or a part of one, that is none. */
export class BadSchema extends Error {
  constructor(path: string, keyword: string, why: string) {
    const place = path.slice(0, MOST_PATH);
    super(`${place === "" ? "" : `at ${place}: `}'${keyword}': ${why}`);
  }
}

/** One that no value obeys: as one of several alternatives it is left out. */
class Impossible extends BadSchema {}

/** A schema with a root of its own, as a part of one that hone makes. */
export class Rooted {
  /**
   * @param name how it is called in what is told
   * @param refused the error for a schema that is none
   */
  constructor(
    readonly schema: unknown,
    readonly name: string,
    readonly refused: (why: string) => Error,
  ) {}
}

/** Texts that stand without JSON's quotes, and their rule. */
interface Bare {
  readonly texts: Language;
  readonly rule: string;
}

/** Where a schema stands, and how its values are written there. */
interface Place {
  readonly root: unknown;
  /** What the root is called in what is told. */
  readonly name: string;
  readonly path: string;
  /** Whether texts are to hold no `</`. */
  readonly tagless: boolean;
  /** Where texts stand without quotes; those within lists and objects have them. */
  readonly bare?: Bare;
}

/** A schema without references and combinations. */
interface Alternative {
  readonly own: Json;
  readonly at: Place;
}

/** A keyword, and the language of what obeys it. */
type Demand = readonly [keyword: string, make: () => Language];

/** Converts schemas, and remembers what it left out. */
export class Converter {
  /** Of all automata. */
  readonly languages = new Languages();
  readonly #texts = this.languages.repeated(this.languages.set(setOf(UNWRITTEN).negate()), 0);
  readonly #told = new Set<string>();
  /** Rules of schemas of others, by their JSON, and of automata. */
  readonly #known = new Map<string, string>();
  #parts = 0;
  #repeated = 0;
  #levels = 0;
  #states = 0;

  constructor(readonly rules: Rules) {}

  /** What the rules do not express, each in one line. */
  get notEnforced(): readonly string[] {
    const told = [...this.#told];
    const more = told.length - MOST_TOLD;
    return more > 0 ? [...told.slice(0, MOST_TOLD), `and ${more} more`] : told;
  }

  /**
   * The name of the rule for the JSON texts of a schema.
   *
   * @param tagless whether they are to hold no `</`
   * @throws BadSchema, or the error of a {@link Rooted} schema
   */
  rule(schema: unknown, tagless: boolean): string {
    return this.#read(schema, { root: schema, name: "", path: "", tagless });
  }

  /**
   * The name of the rule for an object's properties as fields, in their order.
   *
   * @param schema the object's, {@link Rooted} or not
   * @throws as {@link rule}
   */
  fields(schema: unknown, tag: FieldTag): string {
    const ofObject = (own: Json, at: Place) => {
      const others = Object.keys(own).filter((key) => key !== "type" && !KEYWORDS.object?.includes(key));
      for (const key of others) this.#tell(at, key, "a grammar does not express it");
      return this.#object(own, at, tag);
    };
    const at = { root: schema, name: "", path: "", tagless: true };
    return this.#rooted(schema, at, (root, place) => this.#choice(root, place, ofObject));
  }

  #rooted(schema: unknown, at: Place, read: (schema: unknown, at: Place) => string): string {
    if (!(schema instanceof Rooted)) return read(schema, at);
    const { schema: root, name, refused } = schema;
    try {
      return read(root, { ...at, root, name, path: "" });
    } catch (error) {
      throw error instanceof BadSchema ? refused(error.message) : error;
    }
  }

  #tell({ name, path }: Place, keyword: string, why: string): void {
    const place = [name, path && `at ${path.slice(0, MOST_PATH)}`].filter(Boolean).join(" ");
    this.#told.add(`${place}: '${keyword}' is not enforced: ${why}`);
  }

  #base(name: "string" | "value" | "object" | "array" | "char", { bare, tagless }: Place): string {
    if (bare && (name === "string" || name === "value")) return bare.rule;
    return tagless ? `${name}-t` : name;
  }

  #read(schema: unknown, at: Place): string {
    if (schema instanceof Rooted) return this.#rooted(schema, at, (root, place) => this.#read(root, place));
    if (this.#parts >= MOST_PARTS) {
      this.#tell(at, "$ref", `the schema has more than ${MOST_PARTS} parts, references resolved`);
      return this.#base("value", at);
    }
    if (!isObject(schema) || !COMBINING.some((keyword) => schema[keyword] !== undefined))
      return this.#choice(schema, at);
    // Where its like stands within it, it is the same rule.
    const key = toJson([schema, at.name, at.tagless, at.bare?.rule]);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const name = this.rules.reserve();
    this.#known.set(key, name);
    try {
      this.rules.define(name, this.#choice(schema, at));
      return name;
    } catch (error) {
      // As an alternative it is left out; what was read within it may have its name.
      this.#known.delete(key);
      this.rules.define(name, this.#base("value", at));
      throw error;
    }
  }

  /** A rule of what obeys any of a schema's alternatives. */
  #choice(schema: unknown, at: Place, read = (own: Json, place: Place) => this.#simple(own, place)): string {
    if (this.#levels >= MOST_LEVELS)
      throw new BadSchema(at.path, "$ref", `references lead more than ${MOST_LEVELS} levels deep`);
    this.#levels++;
    const rules = new Set<string>();
    let impossible: Impossible | undefined;
    try {
      for (const { own, at: place } of this.#alternatives(schema, at, new Set())) {
        try {
          rules.add(read(own, place));
        } catch (error) {
          if (!(error instanceof Impossible)) throw error;
          impossible ??= error;
        }
      }
    } finally {
      this.#levels--;
    }
    if (rules.size === 0) throw impossible ?? new Impossible(at.path, "false", "it lets no value pass");
    return rules.size === 1 ? ([...rules][0] as string) : this.rules.add([...rules].join(" | "));
  }

  /** @param open references that were followed to where it stands; those of its own are added */
  #alternatives(schema: unknown, at: Place, open: Set<string>): readonly Alternative[] {
    if (schema === true) return [{ own: {}, at }];
    if (schema === false) return [];
    if (!isObject(schema)) throw new BadSchema(at.path, String(schema), "it is no schema");
    this.#takePart(at);
    // Those that stand beside anyOf lead to no place around it.
    const around = new Set(open);
    const { $ref, allOf = [], anyOf, oneOf, ...beside } = schema;
    const own = Object.fromEntries(
      Object.entries(beside).filter(([key, value]) => value !== undefined && !isAnnotation(key)),
    );
    let all: readonly Alternative[] = $ref === undefined ? [{ own, at }] : this.#referred(String($ref), at, open);
    const demand = (keyword: string, others: readonly Alternative[]) => {
      if (all.length > 1 && others.length > 1 && all.length * others.length > MOST_PAIRS)
        this.#tell(at, keyword, "it stands beside another with too many alternatives");
      else all = all.flatMap((one) => others.map((other) => this.#merged(one, other)));
    };
    if ($ref !== undefined) demand("$ref", [{ own, at }]);
    for (const [index, one] of this.#schemasIn(allOf, "allOf", at).entries())
      demand("allOf", this.#alternatives(one, inner(at, `allOf.${index}`), open));
    for (const [keyword, list] of Object.entries({ anyOf, oneOf })) {
      if (list === undefined) continue;
      // The same as the whole: no alternative to it.
      const others = [...this.#schemasIn(list, keyword, at).entries()].filter(
        ([, one]) => !(isObject(one) && around.has(String(one.$ref))),
      );
      if (others.length === 0) {
        this.#tell(at, keyword, "its alternatives lead back to where it stands");
        continue;
      }
      demand(keyword, [{ own: tagOf(schema), at }]);
      demand(
        keyword,
        others.flatMap(([index, one]) => this.#alternatives(one, inner(at, `${keyword}.${index}`), new Set(around))),
      );
    }
    return all;
  }

  #schemasIn(list: unknown, keyword: string, at: Place): readonly unknown[] {
    if (Array.isArray(list) && (list.length > 0 || keyword === "allOf")) return list;
    throw new BadSchema(at.path, keyword, "it is no list of schemas");
  }

  #referred(reference: string, at: Place, open: Set<string>): readonly Alternative[] {
    const shown = reference.slice(0, 100);
    const left = (why: string): readonly Alternative[] => {
      this.#tell(at, "$ref", `${shown} ${why}`);
      return [{ own: {}, at }];
    };
    if (!reference.startsWith("#")) return left("is not within the schema");
    const schema = referred(at.root, reference);
    if (schema === undefined) throw new BadSchema(at.path, "$ref", `${shown} leads nowhere within the schema`);
    if (open.has(reference)) return left("leads back to where it stands");
    open.add(reference);
    return this.#alternatives(schema, at, open);
  }

  /** @throws BadSchema where there is no room for another part */
  #takePart({ path }: Place): void {
    if (++this.#parts > MOST_PARTS)
      throw new BadSchema(path, "allOf", `more than ${MOST_PARTS} parts are to be merged`);
  }

  #merged(one: Alternative, other: Alternative): Alternative {
    const at = other.at.path.length > one.at.path.length ? other.at : one.at;
    if (Object.keys(one.own).length === 0) return { own: other.own, at };
    if (Object.keys(other.own).length === 0) return { own: one.own, at };
    this.#takePart(at);
    return { own: merge(one.own, other.own, (keyword, why) => this.#tell(at, keyword, why)), at };
  }

  #simple(own: Json, at: Place): string {
    const keys = Object.keys(own);
    if (keys.length === 0) return this.#base("value", at);
    if (keys.includes("const") || keys.includes("enum")) return this.#values(own, at);
    for (const key of keys) {
      if (key !== "type" && !ALL_KEYWORDS.has(key))
        this.#tell(at, key, "a grammar does not express it, or it is not known here");
    }
    const read = this.#types(own, at).map((type) => this.#typed(type, own, at));
    return read.length === 1 ? (read[0] as string) : this.rules.add(read.join(" | "));
  }

  #types({ type, ...others }: Json, { path, bare }: Place): readonly string[] {
    if (type !== undefined) {
      const types: unknown[] = Array.isArray(type) ? type : [type];
      if (types.length === 0) throw new Impossible(path, "type", "no type is left");
      if (types.every((one) => TYPES.includes(one as string))) return types as string[];
      throw new BadSchema(path, "type", `${toJson(type)} is no type of JSON`);
    }
    // What has no type is read as a text.
    if (bare) return ["string"];
    const implied = Object.keys(KEYWORDS).filter((one) => KEYWORDS[one]?.some((keyword) => keyword in others));
    if (implied.length > 0) return implied;
    return TYPES.filter((one) => one !== "integer");
  }

  #values({ const: value, enum: list, type, ...others }: Json, at: Place): string {
    const keyword = list === undefined ? "const" : "enum";
    const values: unknown = list ?? [value];
    if (!Array.isArray(values) || values.length === 0) throw new Impossible(at.path, keyword, "it has no values");
    const types = type === undefined ? undefined : this.#types({ type }, at);
    const fitting = types ? values.filter((one) => types.some((type) => isOf(one, type))) : values;
    if (fitting.length === 0) throw new Impossible(at.path, keyword, "none of its values has the type");
    for (const key of Object.keys(others)) this.#tell(at, key, `it stands beside '${keyword}'`);
    const texts = fitting.map((one) => (at.bare && typeof one === "string" ? one : written(one, at)));
    return this.rules.add(this.rules.choice([...new Set(texts)].map((text) => [text, ""])));
  }

  #typed(type: string, schema: Json, at: Place): string {
    const { bare: _, ...quoted } = at;
    if (type === "object") return this.#object(schema, quoted);
    if (type === "array") return this.#array(schema, quoted);
    if (type === "string") return this.#string(schema, at);
    if (type === "null") return this.rules.add('"null"');
    return type === "boolean" ? "boolean" : this.#number(schema, type === "integer", at);
  }

  /** @param tag undefined: as JSON */
  #object(schema: Json, at: Place, tag?: FieldTag): string {
    const { properties = {}, required = [], additionalProperties, unevaluatedProperties } = schema;
    const { propertyNames, patternProperties, dependentRequired, dependentSchemas } = schema;
    const declared = additionalProperties ?? unevaluatedProperties;
    const others = declared ?? true;
    if (!isObject(properties)) throw new BadSchema(at.path, "properties", "it is no object");
    if (!Array.isArray(required) || required.some((name) => typeof name !== "string")) {
      throw new BadSchema(at.path, "required", "it is no list of names");
    }
    for (const [keyword, value] of Object.entries({ dependentRequired, dependentSchemas })) {
      if (value !== undefined) this.#tell(at, keyword, "a grammar does not express it");
    }
    const needed = new Set(required as string[]);
    const known = new Map(Object.entries(properties).filter(([name, one]) => one !== false || needed.has(name)));
    for (const name of needed) {
      if (known.has(name)) continue;
      if (others === false) throw new Impossible(at.path, "required", `'properties' does not describe ${name}`);
      known.set(name, others);
    }
    const { least, most } = this.#counts(schema, "minProperties", "maxProperties", at);
    if (known.size === 0) {
      // OpenAI's clients write an object without properties so.
      const bare = "properties" in schema && declared === undefined && least === 0;
      const named = propertyNames !== undefined || patternProperties !== undefined;
      const whole = bare && !named ? { ...schema, additionalProperties: false } : schema;
      return tag ? this.#openFields(whole, at, tag) : this.#open(whole, at, least, most);
    }
    if (patternProperties !== undefined) this.#tell(at, "patternProperties", "it stands beside 'properties'");
    if (propertyNames !== undefined && !(isObject(propertyNames) && listsNames(propertyNames, [...known.keys()]))) {
      this.#tell(at, "propertyNames", "it stands beside 'properties'");
    }
    if (least > needed.size) this.#tell(at, "minProperties", "a grammar does not count properties that may be missing");
    if (most !== undefined && most < known.size) this.#tell(at, "maxProperties", "a grammar does not count properties");
    // Properties beyond these are never written, which every value of `additionalProperties` allows.
    const place = tag ? { ...at, bare: this.#bare(tag.without) } : at;
    const members = [...known].map(([name, one]) => {
      const value = this.#read(one, inner(place, `properties.${name}`));
      return { key: tag ? tag.open.join(name) : written(name, at), value, optional: !needed.has(name) };
    });
    const left = new Set(members.filter(({ optional }) => optional).slice(MOST_OPTIONAL));
    if (left.size > 0) this.#tell(at, "properties", `of optional ones the first ${MOST_OPTIONAL} are written`);
    const kept = members.filter((member) => !left.has(member));
    if (tag) return this.rules.add(this.rules.members(kept, { behind: literal(tag.close), between: "" }));
    return this.rules.add(`"{" ws ${this.rules.members(kept, { before: 'sp ":" sp', between: '"," ws' })} ws "}"`);
  }

  /** Fields of any names. */
  #openFields(schema: Json, at: Place, tag: FieldTag): string {
    const value = schema.additionalProperties ?? schema.unevaluatedProperties ?? true;
    if (value === false) return this.rules.add('""');
    for (const key of ["propertyNames", "patternProperties", "minProperties", "maxProperties"]) {
      if (schema[key] !== undefined) this.#tell(at, key, "a grammar expresses it in JSON alone");
    }
    const rule = this.#read(value, inner({ ...at, bare: this.#bare(tag.without) }, "additionalProperties"));
    const [before, behind] = tag.open.map(literal);
    return this.rules.add(`(${before} [^<>\\n]{1,64} ${behind} ${rule} ${literal(tag.close)})*`);
  }

  /** An object whose properties are not named. */
  #open(schema: Json, at: Place, least: number, most: number | undefined): string {
    const { propertyNames, patternProperties = {} } = schema;
    const others = schema.additionalProperties ?? schema.unevaluatedProperties ?? true;
    if (!isObject(patternProperties)) throw new BadSchema(at.path, "patternProperties", "it is no object");
    const [pattern, ...more] = Object.entries(patternProperties);
    if (more.length > 0) this.#tell(at, "patternProperties", "a grammar expresses one of them");
    if ((!pattern && others === false) || most === 0) return this.rules.add('"{" ws "}"');
    if (least > 1) this.#tell(at, "minProperties", "a grammar does not see whether names are different");
    if (!pattern && propertyNames === undefined && others === true && least === 0 && most === undefined) {
      return this.#base("object", at);
    }
    // Names that match no pattern are never written.
    const names = [{ type: "string" }, propertyNames ?? true, pattern ? { pattern: pattern[0] } : true];
    const name = this.#read({ allOf: names }, inner(at, "propertyNames"));
    const value = this.#read(pattern ? pattern[1] : others, inner(at, "additionalProperties"));
    const pair = this.rules.add(`${name} sp ":" sp ${value}`);
    return this.rules.add(`"{" ws ${this.#listed(pair, Math.min(least, 1), most)} ws "}"`);
  }

  /** Items parted by commas. */
  #listed(item: string, least: number, most: number | undefined): string {
    if (most === 0) return '""';
    const further = this.rules.add(`"," ws ${item}`);
    const times = most === undefined ? `{${Math.max(0, least - 1)},}` : `{${Math.max(0, least - 1)},${most - 1}}`;
    const list = `${item} ${further}${times}`;
    return least === 0 ? `(${list})?` : list;
  }

  #array(schema: Json, at: Place): string {
    const { items, prefixItems, additionalItems, uniqueItems } = schema;
    for (const keyword of ["contains", "minContains", "maxContains"]) {
      if (schema[keyword] !== undefined) this.#tell(at, keyword, "a grammar does not express it");
    }
    if (uniqueItems === true) this.#tell(at, "uniqueItems", "a grammar does not compare items");
    // Older drafts have the items in their order in `items`, and the others in `additionalItems`.
    const ordered: unknown = prefixItems ?? (Array.isArray(items) ? items : []);
    const others = (Array.isArray(items) ? additionalItems : items) ?? true;
    if (!Array.isArray(ordered)) throw new BadSchema(at.path, "prefixItems", "it is no list of schemas");
    const { least, most } = this.#counts(schema, "minItems", "maxItems", at);
    if (ordered.length === 0) {
      if (others === false || most === 0) return this.rules.add('"[" ws "]"');
      if (others === true && least === 0 && most === undefined) return this.#base("array", at);
      const item = this.#read(others, inner(at, "items"));
      return this.rules.add(`"[" ws ${this.#listed(item, least, most)} ws "]"`);
    }
    const kept = ordered.slice(0, most);
    const read = kept.map((one, index) => this.#read(one, inner(at, `prefixItems.${index}`)));
    const left = Math.max(0, least - read.length);
    const open = others !== false && (most === undefined || most > read.length);
    if (left > 0 && !open) throw new Impossible(at.path, "minItems", "there are not so many items");
    const more = open ? this.rules.add(`"," ws ${this.#read(others, inner(at, "items"))}`) : "";
    const rest = open ? ` ${more}{${left},${most === undefined ? "" : most - read.length}}` : "";
    return this.rules.add(`"[" ws ${read.join(' "," ws ')}${rest} ws "]"`);
  }

  #string(schema: Json, at: Place): string {
    const { languages } = this;
    const { least, most } = this.#counts(schema, "minLength", "maxLength", at);
    const patterns = [schema.pattern ?? []].flat();
    const formats = [schema.format ?? []].flat();
    if (patterns.some((pattern) => typeof pattern !== "string"))
      throw new BadSchema(at.path, "pattern", "it is no text");
    const demands: Demand[] = [
      ...patterns.map((one): Demand => ["pattern", () => patternOf(one as string, languages)]),
      // Beside its pattern, the name of a format that is not known is a label.
      ...formats
        .filter((one) => patterns.length === 0 || isFormat(one))
        .map((one): Demand => ["format", () => this.#formatOf(one)]),
    ];
    const isCounted = least > 0 || most !== undefined;
    if (isCounted && (at.bare || demands.length > 0)) {
      const counted = () => languages.repeated(languages.character, least, most);
      demands.push([most === undefined ? "minLength" : "maxLength", counted]);
    }
    const none = () => new Unwritable("no text obeys it together with the rest");
    const rule = this.#narrowed(at.bare?.texts ?? this.#texts, demands, at, { none, quoted: !at.bare });
    if (rule !== undefined) return rule;
    if (at.bare || !isCounted) return this.#base("string", at);
    return this.rules.add(`"\\"" ${this.#base("char", at)}{${least},${most ?? ""}} "\\""`);
  }

  #formatOf(format: unknown): Language {
    if (isFormat(format)) return textsOf(FORMATS[format] as string, this.languages);
    throw new Unwritable(`${toJson(format)} is none that is known here`);
  }

  /** Texts without quotes that hold none of some texts. */
  #bare(without: readonly string[]): Bare {
    const { languages } = this;
    // It depends on the form of calls alone.
    return languages.free(() => {
      const held = without.map((text) => languages.text(text));
      const texts = languages.all([
        this.#texts,
        languages.not(languages.sequence(languages.every, languages.any(held), languages.every)),
      ]);
      return { texts, rule: this.#automaton(texts, false, false) };
    });
  }

  #number(schema: Json, integer: boolean, at: Place): string {
    const { languages } = this;
    const demands: Demand[] = [];
    for (const [keyword, side, strict] of [
      ["minimum", "below", false],
      ["exclusiveMinimum", "below", true],
      ["maximum", "above", false],
      ["exclusiveMaximum", "above", true],
    ] as const) {
      const value = schema[keyword];
      // In draft 4 it is said of `minimum` and `maximum` whether they are exclusive.
      if (value === undefined || typeof value === "boolean") continue;
      if (!isNumber(value)) throw new BadSchema(at.path, keyword, "it is no number");
      const said = schema[side === "below" ? "exclusiveMinimum" : "exclusiveMaximum"] === true;
      demands.push([keyword, () => within({ value, exclusive: strict || said, side }, languages)]);
    }
    const { multipleOf } = schema;
    if (multipleOf !== undefined && !(integer && multipleOf === 1))
      demands.push(["multipleOf", () => this.#multiplesOf(multipleOf)]);
    const free = integer ? "integer" : "number";
    const none = (keyword: string) => new Impossible(at.path, keyword, `no ${free} is within the bounds`);
    const whole = languages.free(() => numbers(integer, languages));
    return this.#narrowed(whole, demands, at, { none, quoted: false }) ?? free;
  }

  #multiplesOf(divisor: unknown): Language {
    const { languages } = this;
    if (Number.isInteger(divisor) && (divisor as number) > 0 && (divisor as number) <= MOST_DIVISOR)
      return languages.sequence(
        languages.any([languages.empty, languages.text("-")]),
        languages.multiples(divisor as number),
      );
    // 0.01 is two digits behind the point.
    const places = -Math.log10(divisor as number);
    if (Number.isInteger(places) && places > 0) return textsOf(`-?[0-9]{1,12}(?:\\.[0-9]{1,${places}})?`, languages);
    throw new Unwritable(`a grammar does not divide by ${toJson(divisor)}`);
  }

  /**
   * A rule for what obeys as many demands as there is room for; undefined where that is none. What is left out is told.
   *
   * @param how the error where nothing obeys a demand together with those before it, and whether it is a text of JSON
   */
  #narrowed(
    whole: Language,
    demands: readonly Demand[],
    at: Place,
    { none, quoted }: { readonly none: (keyword: string) => Error; readonly quoted: boolean },
  ): string | undefined {
    let narrow = whole;
    for (const [keyword, make] of demands) {
      try {
        narrow = this.languages.part(() => {
          const both = this.languages.all([narrow, make()]);
          const { length } = this.languages.statesOf(both);
          if (length === 0) throw none(keyword);
          if (this.#states + length > MOST_STATES) throw new Unwritable(TOO_MANY);
          return both;
        });
      } catch (error) {
        if (!(error instanceof Unwritable)) throw error;
        this.#tell(at, keyword, error.message);
      }
    }
    return narrow === whole ? undefined : this.#automaton(narrow, quoted, at.tagless);
  }

  #automaton(language: Language, quoted: boolean, tagless: boolean): string {
    const key = `${language.id} ${quoted} ${quoted && tagless}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const states = this.languages.statesOf(language);
    this.#states += states.length;
    const rule = this.rules.automaton(states, quoted, tagless);
    this.#known.set(key, rule);
    return rule;
  }

  /** Counts that repetitions of a rule can have; those that are too large are told. */
  #counts(schema: Json, least: string, most: string, at: Place) {
    const counts: { least: number; most: number | undefined } = { least: 0, most: undefined };
    for (const [keyword, side] of [
      [least, "least"],
      [most, "most"],
    ] as const) {
      const value = schema[keyword];
      if (value === undefined) continue;
      if (!isCount(value)) throw new BadSchema(at.path, keyword, "it is no count");
      if (value <= MOST_COUNT && this.#repeated + value <= MOST_REPEATED) {
        this.#repeated += value;
        counts[side] = value;
      } else this.#tell(at, keyword, `repetitions are counted up to ${MOST_COUNT}, and up to ${MOST_REPEATED} in all`);
    }
    if (counts.most !== undefined && counts.least > counts.most)
      throw new Impossible(at.path, most, `it is below '${least}'`);
    return counts;
  }
}

/**
 * What a discriminator demands of each alternative: the property that tells them apart. By it they are read, and pydantic
 * requires none with a default.
 */
function tagOf({ discriminator }: Json): Json {
  const tag = isObject(discriminator) ? discriminator.propertyName : undefined;
  return typeof tag === "string" ? { required: [tag] } : {};
}

/** Whether a schema of names lists these, and says nothing else. */
const listsNames = ({ type = "string", enum: values, ...others }: Json, names: readonly string[]) =>
  type === "string" &&
  Array.isArray(values) &&
  Object.keys(others).length === 0 &&
  names.every((name) => values.includes(name));

const isFormat = (format: unknown): format is string => typeof format === "string" && Object.hasOwn(FORMATS, format);
const isAnnotation = (key: string) => ANNOTATIONS.has(key) || key.startsWith("x-");

/** Where a part of a schema stands. */
const inner = (at: Place, step: string): Place => ({ ...at, path: at.path === "" ? step : `${at.path}.${step}` });

/** A value as JSON, in the way in which the texts at a place write it. */
function written(value: unknown, { tagless }: Place): string {
  const text = toJson(value);
  return tagless ? text.replaceAll("</", "<\\/") : text;
}
