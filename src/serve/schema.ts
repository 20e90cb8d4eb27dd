/**
 * JSON Schemas as rules of a grammar. What a grammar does not express is left out, and named: the rules never let pass what
 * the rest of the schema refuses. A schema that is none is refused.
 */

import { isOf } from "../chat/formats/typed-text.js";
import { referred } from "../chat/pointer.js";
import type { FieldTag } from "../core/rollout/conversation.js";
import { toJson } from "../core/util/json.js";
import {
  intersection,
  type Language,
  multiplesOf,
  patternOf,
  statesOf,
  textsOf,
  textsWithout,
  Unwritable,
  Work,
} from "./automata.js";
import { type Json, merge } from "./merge.js";
import { isFields as isObject } from "./openai/fields.js";
import { type Bound, numbersWithin } from "./ranges.js";
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
/** Levels of a schema with its references resolved. */
const MOST_LEVELS = 256;
/** States of the automata in a grammar together. */
const MOST_STATES = 4000;
/** States that a bounded number has: with room for fewer no further automaton is begun. */
const LEAST_ROOM = 100;
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

const ANY = {
  text: () => textsWithout(UNWRITTEN, new Work()),
  integer: () => numbersWithin([], true, new Work()),
  number: () => numbersWithin([], false, new Work()),
};
const made = new Map<keyof typeof ANY, Language>();

/** Texts and numbers of any kind, which others are intersected with: made once, at no request's cost. */
function any(kind: keyof typeof ANY): Language {
  const language = made.get(kind) ?? ANY[kind]();
  made.set(kind, language);
  return language;
}

/** A schema, or a part of one, that is none. */
export class BadSchema extends Error {
  constructor(path: string, keyword: string, why: string) {
    super(`${path === "" ? "" : `at ${path}: `}'${keyword}': ${why}`);
  }
}

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

interface MadeRule {
  readonly rule: string;
  readonly left: readonly (readonly [keyword: string, why: string])[];
}

/** Converts schemas, and remembers what it left out. */
export class Converter {
  readonly #told = new Set<string>();
  readonly #once = new Map<string, MadeRule>();
  #parts = 0;
  #repeated = 0;
  #levels = 0;
  #states = 0;
  /** Of all automata. */
  readonly work = new Work();

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
    return new Reader(this, schema, "", tagless).read(schema, "", new Set());
  }

  rooted({ schema, name, refused }: Rooted, read: (reader: Reader) => string, tagless: boolean): string {
    try {
      return read(new Reader(this, schema, name, tagless));
    } catch (error) {
      if (error instanceof BadSchema) throw refused(error.message);
      throw error;
    }
  }

  /**
   * The name of the rule for an object's properties as fields, in their order.
   *
   * @param schema the object's, {@link Rooted} or not
   * @throws as {@link rule}
   */
  fields(schema: unknown, tag: FieldTag): string {
    const read = (reader: Reader) => reader.fields(tag);
    return schema instanceof Rooted ? this.rooted(schema, read, true) : read(new Reader(this, schema, "", true));
  }

  /** Texts without quotes that hold none of some texts. */
  bare(without: readonly string[]): Bare {
    const parts = without.map((text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
    // Not of the request's work: it depends on the form of calls alone.
    const work = new Work();
    const texts = intersection(any("text"), patternOf(`^(?![^]*(?:${parts.join("|")}))[^]*$`, work), work);
    const make = () => ({ rule: this.rules.automaton(statesOf(texts), false, false), left: [] });
    return { texts, rule: this.once(toJson(without), make).rule };
  }

  tell(name: string, path: string, keyword: string, why: string): void {
    this.#told.add(
      `${[name, path && `at ${path.slice(0, MOST_PATH)}`].filter(Boolean).join(" ")}: '${keyword}' is not enforced: ${why}`,
    );
  }

  /** Whether there is room for another part. */
  takePart(): boolean {
    return ++this.#parts <= MOST_PARTS;
  }

  /** Whether there is room for so many repetitions more. */
  takeRepeated(count: number): boolean {
    if (count > MOST_COUNT || this.#repeated + count > MOST_REPEATED) return false;
    this.#repeated += count;
    return true;
  }

  /** The language that `make` makes, or why there is none. */
  language(make: (work: Work) => Language): Language | string {
    if (this.work.over || this.#states > MOST_STATES - LEAST_ROOM) return TOO_MANY;
    try {
      return this.work.part(make);
    } catch (error) {
      if (!(error instanceof Unwritable)) throw error;
      return error.message;
    }
  }

  /** What is read one level deeper. @throws BadSchema where that is too deep */
  level<T>(path: string, read: () => T): T {
    if (++this.#levels > MOST_LEVELS)
      throw new BadSchema(path.slice(0, MOST_PATH), "$ref", `references lead more than ${MOST_LEVELS} levels deep`);
    try {
      return read();
    } finally {
      this.#levels--;
    }
  }

  /** A rule that was made for the key, and what it leaves out. */
  once(key: string, make: () => MadeRule): MadeRule {
    const made = this.#once.get(key) ?? make();
    this.#once.set(key, made);
    return made;
  }

  /** A rule for a language; undefined where there is no room for it. */
  automaton(language: Language, quoted: boolean, tagless: boolean): string | undefined {
    const states = statesOf(language);
    if (this.#states + states.length > MOST_STATES) return undefined;
    this.#states += states.length;
    return this.rules.automaton(states, quoted, tagless);
  }
}

const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;
const isNumber = (value: unknown): value is number | bigint => typeof value === "bigint" || Number.isFinite(value);

/** References that lead to where they stand without a part of a value between. */
type Open = ReadonlySet<string>;
const NONE: Open = new Set();

class Reader {
  readonly #to: Converter;
  readonly #root: unknown;
  readonly #name: string;
  readonly #tagless: boolean;
  /** Where texts stand without quotes; those within lists and objects have them. */
  readonly #bare: Bare | undefined;
  /** Rules of schemas of others, by their JSON and the references that are open. */
  readonly #referred = new Map<string, string>();

  constructor(to: Converter, root: unknown, name: string, tagless: boolean, bare?: Bare) {
    this.#to = to;
    this.#root = root;
    this.#name = name;
    this.#tagless = tagless;
    this.#bare = bare;
  }

  #tell(path: string, keyword: string, why: string): void {
    this.#to.tell(this.#name, path, keyword, why);
  }

  #base(name: "string" | "value" | "object" | "array" | "char"): string {
    if (this.#bare && (name === "string" || name === "value")) return this.#bare.rule;
    return this.#tagless ? `${name}-t` : name;
  }

  #add(body: string): string {
    return this.#to.rules.add(body);
  }

  read(schema: unknown, path: string, open: Open): string {
    if (schema instanceof Rooted) {
      return this.#to.rooted(schema, (reader) => reader.read(schema.schema, "", NONE), this.#tagless);
    }
    if (schema === true) return this.#base("value");
    if (schema === false) throw new BadSchema(path, "false", "it lets no value pass");
    if (!isObject(schema)) throw new BadSchema(path, String(schema), "it is no schema");
    if (!this.#to.takePart()) {
      this.#tell(path, "$ref", `the schema has more than ${MOST_PARTS} parts, references resolved`);
      return this.#base("value");
    }
    const keys = Object.keys(schema).filter((key) => schema[key] !== undefined && !isAnnotation(key));
    const own = Object.fromEntries(keys.map((key) => [key, schema[key]]));
    if (keys.length === 0) return this.#base("value");
    const combined = ["$ref", "allOf", "anyOf", "oneOf"].find((keyword) => keys.includes(keyword));
    if (combined === "anyOf" || combined === "oneOf") return this.#combined(combined, own, path, open, tagOf(schema));
    if (combined !== undefined) return this.#combined(combined, own, path, open);
    if (keys.includes("const") || keys.includes("enum")) return this.#values(own, path);
    for (const key of keys) {
      if (key !== "type" && !ALL_KEYWORDS.has(key))
        this.#tell(path, key, "a grammar does not express it, or it is not known here");
    }
    const types = this.#types(own, path);
    const read = types.map((type) => this.#typed(type, own, path));
    return read.length === 1 ? (read[0] as string) : this.#add(read.join(" | "));
  }

  /** A schema of others. Where its like stands within it, it is the same rule. */
  #combined(keyword: string, own: Json, path: string, open: Open, tag: Json = {}): string {
    const key = toJson([own, [...open], tag]);
    const known = this.#referred.get(key);
    if (known !== undefined) return known;
    const name = this.#to.rules.reserve();
    this.#referred.set(key, name);
    try {
      const rule = this.#to.level(path, () => {
        if (keyword === "$ref") return this.#reference(own, path, open);
        if (keyword === "allOf") return this.#together(own, path, open);
        return this.#alternatives(keyword, own, path, open, tag);
      });
      this.#to.rules.define(name, rule);
      return name;
    } catch (error) {
      // As an alternative it is left out; what was read within it may have its name.
      this.#referred.delete(key);
      this.#to.rules.define(name, this.#base("value"));
      throw error;
    }
  }

  #reference(own: Json, path: string, open: Open): string {
    const { $ref, ...beside } = own;
    const reference = String($ref);
    if (!reference.startsWith("#")) {
      this.#tell(path, "$ref", `${reference.slice(0, 100)} is not within the schema`);
      return this.read(beside, path, open);
    }
    const within = new Set(open);
    return this.read(this.#resolved(own, path, within), path, within);
  }

  /** What all of the schemas demand. */
  #merged(schemas: readonly unknown[], path: string): Json {
    let result: Json = {};
    const closed: string[][] = [];
    for (const schema of schemas) {
      if (schema === true) continue;
      if (schema === false) throw new BadSchema(path, "allOf", "it lets no value pass");
      if (!isObject(schema)) throw new BadSchema(path, "allOf", "it is no list of schemas");
      if (!this.#to.takePart())
        throw new BadSchema(path.slice(0, MOST_PATH), "allOf", `more than ${MOST_PARTS} parts are to be merged`);
      if (schema.additionalProperties === false && isObject(schema.properties))
        closed.push(Object.keys(schema.properties));
      const own = Object.fromEntries(Object.entries(schema).filter(([key]) => !isAnnotation(key)));
      result = merge(result, merge(own, tagOf(schema)), (keyword, why) => this.#tell(path, keyword, why));
    }
    const names = Object.keys(isObject(result.properties) ? result.properties : {});
    if (closed.some((known) => names.some((name) => !known.includes(name)))) {
      this.#tell(path, "additionalProperties", "another part of 'allOf' has more properties");
    }
    return result;
  }

  #together({ allOf, ...beside }: Json, path: string, open: Open): string {
    if (!Array.isArray(allOf) || allOf.length === 0) throw new BadSchema(path, "allOf", "it is no list of schemas");
    const [first] = allOf;
    if (allOf.length === 1 && Object.keys(beside).length === 0) return this.read(first, join(path, "allOf.0"), open);
    const within = new Set(open);
    const resolved = allOf.map((one) => this.#resolved(one, path, within));
    return this.read(this.#merged([beside, ...resolved], path), path, within);
  }

  /** A schema without a reference at its top. The references that were followed are added to `open`. */
  #resolved(schema: unknown, path: string, open: Set<string>): unknown {
    if (!isObject(schema) || typeof schema.$ref !== "string" || !schema.$ref.startsWith("#")) return schema;
    const { $ref: reference, ...beside } = schema as { readonly $ref: string };
    const to = referred(this.#root, reference);
    if (to === undefined)
      throw new BadSchema(path, "$ref", `${reference.slice(0, 100)} leads nowhere within the schema`);
    if (open.has(reference)) {
      this.#tell(path, "$ref", `${reference.slice(0, 100)} leads back to where it stands`);
      return beside;
    }
    open.add(reference);
    const resolved = this.#resolved(to, path, open);
    return Object.keys(beside).length > 0 ? this.#merged([resolved, beside], path) : resolved;
  }

  #alternatives(keyword: string, { [keyword]: list, ...beside }: Json, path: string, open: Open, tag: Json): string {
    if (!Array.isArray(list) || list.length === 0) throw new BadSchema(path, keyword, "it is no list of schemas");
    const alone = Object.keys(beside).length === 0;
    const read: string[] = [];
    let impossible: BadSchema | undefined;
    for (const [index, one] of list.entries()) {
      const at = join(path, `${keyword}.${index}`);
      // The same as the whole: no alternative to it.
      if (alone && isObject(one) && typeof one.$ref === "string" && open.has(one.$ref)) continue;
      if (one === false) continue;
      try {
        const within = new Set(open);
        const demanded = merge(beside, tag);
        const isAll = Object.keys(demanded).length === 0;
        read.push(this.read(isAll ? one : this.#merged([demanded, this.#resolved(one, at, within)], at), at, within));
      } catch (error) {
        // Beside other keywords an alternative may be impossible.
        if (alone || !(error instanceof BadSchema)) throw error;
        impossible ??= error;
      }
    }
    if (read.length === 0) {
      if (impossible) throw impossible;
      this.#tell(path, keyword, "its alternatives lead back to where it stands");
      return this.read(beside, path, open);
    }
    return read.length === 1 ? (read[0] as string) : this.#add([...new Set(read)].join(" | "));
  }

  #types({ type, ...others }: Json, path: string): string[] {
    if (type !== undefined) {
      const types: unknown[] = Array.isArray(type) ? type : [type];
      if (types.length > 0 && types.every((one) => TYPES.includes(one as string))) return types as string[];
      const why = types.length === 0 ? "no type is left" : `${toJson(type)} is no type of JSON`;
      throw new BadSchema(path, "type", why);
    }
    // What has no type is read as a text.
    if (this.#bare) return ["string"];
    const implied = Object.keys(KEYWORDS).filter((one) => KEYWORDS[one]?.some((keyword) => keyword in others));
    if (implied.length > 0) return implied;
    return TYPES.filter((one) => one !== "integer");
  }

  #values({ const: value, enum: list, type, ...others }: Json, path: string): string {
    const keyword = list === undefined ? "const" : "enum";
    const values: unknown = list ?? [value];
    if (!Array.isArray(values) || values.length === 0) throw new BadSchema(path, keyword, "it has no values");
    const types = type === undefined ? undefined : this.#types({ type }, path);
    const fitting = types ? values.filter((one) => types.some((type) => isOf(one, type))) : values;
    if (fitting.length === 0) throw new BadSchema(path, keyword, "none of its values has the type");
    for (const key of Object.keys(others)) this.#tell(path, key, `it stands beside '${keyword}'`);
    const texts = fitting.map((one) => (this.#bare && typeof one === "string" ? one : this.#written(one)));
    return this.#add(this.#to.rules.choice([...new Set(texts)].map((text) => [text, ""])));
  }

  #typed(type: string, schema: Json, path: string): string {
    if (this.#bare && (type === "object" || type === "array")) {
      return new Reader(this.#to, this.#root, this.#name, true).#typed(type, schema, path);
    }
    if (type === "object") return this.#object(schema, path);
    if (type === "array") return this.#array(schema, path);
    if (type === "string") return this.#string(schema, path);
    if (type === "null") return this.#add('"null"');
    return type === "boolean" ? "boolean" : this.#number(schema, type === "integer", path);
  }

  fields(tag: FieldTag): string {
    const open = new Set<string>();
    const top = this.#resolved(this.#root, "", open);
    const { allOf = [], ...own } = isObject(top) ? top : {};
    if (!Array.isArray(allOf)) throw new BadSchema("", "allOf", "it is no list of schemas");
    const whole = this.#merged([own, ...allOf.map((one) => this.#resolved(one, "", open))], "");
    for (const key of Object.keys(whole)) {
      if (key !== "type" && !KEYWORDS.object?.includes(key)) this.#tell("", key, "a grammar does not express it");
    }
    return this.#object(whole, "", tag);
  }

  /** @param tag undefined: as JSON */
  #object(schema: Json, path: string, tag?: FieldTag): string {
    const { properties = {}, required = [], additionalProperties, unevaluatedProperties } = schema;
    const { propertyNames, patternProperties, dependentRequired, dependentSchemas } = schema;
    const declared = additionalProperties ?? unevaluatedProperties;
    const others = declared ?? true;
    if (!isObject(properties)) throw new BadSchema(path, "properties", "it is no object");
    if (!Array.isArray(required) || required.some((name) => typeof name !== "string")) {
      throw new BadSchema(path, "required", "it is no list of names");
    }
    for (const [keyword, value] of Object.entries({ dependentRequired, dependentSchemas })) {
      if (value !== undefined) this.#tell(path, keyword, "a grammar does not express it");
    }
    const needed = new Set(required as string[]);
    const known = new Map(Object.entries(properties).filter(([name, one]) => one !== false || needed.has(name)));
    for (const name of needed) {
      if (known.has(name)) continue;
      if (others === false) throw new BadSchema(path, "required", `'properties' does not describe ${name}`);
      known.set(name, others);
    }
    const { least, most } = this.#counts(schema, "minProperties", "maxProperties", path);
    if (known.size === 0) {
      // OpenAI's clients write an object without properties so.
      const bare = "properties" in schema && declared === undefined && least === 0;
      const named = propertyNames !== undefined || patternProperties !== undefined;
      const whole = bare && !named ? { ...schema, additionalProperties: false } : schema;
      return tag ? this.#openFields(whole, tag) : this.#open(whole, least, most, path);
    }
    if (patternProperties !== undefined) this.#tell(path, "patternProperties", "it stands beside 'properties'");
    if (propertyNames !== undefined && !(isObject(propertyNames) && listsNames(propertyNames, [...known.keys()]))) {
      this.#tell(path, "propertyNames", "it stands beside 'properties'");
    }
    if (least > needed.size)
      this.#tell(path, "minProperties", "a grammar does not count properties that may be missing");
    if (most !== undefined && most < known.size)
      this.#tell(path, "maxProperties", "a grammar does not count properties");
    // Properties beyond these are never written, which every value of `additionalProperties` allows.
    const values = tag ? this.#bareReader(tag) : this;
    const members = [...known].map(([name, one]) => {
      const value = values.read(one, join(path, `properties.${name}`), NONE);
      return { key: tag ? tag.open.join(name) : this.#written(name), value, optional: !needed.has(name) };
    });
    const optional = members.filter((member) => member.optional);
    if (optional.length > MOST_OPTIONAL) {
      const why = `of optional ones the first ${MOST_OPTIONAL} are written`;
      this.#tell(path, "properties", why);
    }
    const left = new Set(optional.slice(MOST_OPTIONAL));
    const kept = members.filter((member) => !left.has(member));
    if (tag) return this.#add(this.#to.rules.members(kept, { behind: literal(tag.close), between: "" }));
    return this.#add(`"{" ws ${this.#to.rules.members(kept, { before: 'sp ":" sp', between: '"," ws' })} ws "}"`);
  }

  #bareReader({ without }: FieldTag): Reader {
    return new Reader(this.#to, this.#root, this.#name, true, this.#to.bare(without));
  }

  /** Fields of any names. */
  #openFields(schema: Json, tag: FieldTag): string {
    const { additionalProperties, unevaluatedProperties, ...others } = schema;
    const value = additionalProperties ?? unevaluatedProperties ?? true;
    if (value === false) return this.#add('""');
    for (const key of ["propertyNames", "patternProperties", "minProperties", "maxProperties"]) {
      if (others[key] !== undefined) this.#tell("", key, "a grammar expresses it in JSON alone");
    }
    const rule = this.#bareReader(tag).read(value, "additionalProperties", NONE);
    const [before, behind] = tag.open.map(literal);
    return this.#add(`(${before} [^<>\\n]{1,64} ${behind} ${rule} ${literal(tag.close)})*`);
  }

  /** A value as JSON, in the way in which these texts write it. */
  #written(value: unknown): string {
    const text = toJson(value);
    return this.#tagless ? text.replaceAll("</", "<\\/") : text;
  }

  /** An object whose properties are not named. */
  #open(schema: Json, least: number, most: number | undefined, path: string): string {
    const { propertyNames, patternProperties = {} } = schema;
    const others = schema.additionalProperties ?? schema.unevaluatedProperties ?? true;
    if (!isObject(patternProperties)) throw new BadSchema(path, "patternProperties", "it is no object");
    const [pattern, ...more] = Object.entries(patternProperties);
    if (more.length > 0) this.#tell(path, "patternProperties", "a grammar expresses one of them");
    if ((!pattern && others === false) || most === 0) return this.#add('"{" ws "}"');
    if (least > 1) this.#tell(path, "minProperties", "a grammar does not see whether names are different");
    if (!pattern && propertyNames === undefined && others === true && least === 0 && most === undefined) {
      return this.#base("object");
    }
    // Names that match no pattern are never written.
    const names = [{ type: "string" }, propertyNames ?? true, pattern ? { pattern: pattern[0] } : true];
    const name = this.#together({ allOf: names }, join(path, "propertyNames"), NONE);
    const value = this.read(pattern ? pattern[1] : others, join(path, "additionalProperties"), NONE);
    const pair = this.#add(`${name} sp ":" sp ${value}`);
    return this.#add(`"{" ws ${this.#listed(pair, Math.min(least, 1), most)} ws "}"`);
  }

  /** Items parted by commas. */
  #listed(item: string, least: number, most: number | undefined): string {
    if (most === 0) return '""';
    const further = this.#add(`"," ws ${item}`);
    const times = most === undefined ? `{${Math.max(0, least - 1)},}` : `{${Math.max(0, least - 1)},${most - 1}}`;
    const list = `${item} ${further}${times}`;
    return least === 0 ? `(${list})?` : list;
  }

  #array(schema: Json, path: string): string {
    const { items, prefixItems, additionalItems, uniqueItems } = schema;
    for (const keyword of ["contains", "minContains", "maxContains"]) {
      if (schema[keyword] !== undefined) this.#tell(path, keyword, "a grammar does not express it");
    }
    if (uniqueItems === true) this.#tell(path, "uniqueItems", "a grammar does not compare items");
    // Older drafts have the items in their order in `items`, and the others in `additionalItems`.
    const ordered: unknown = prefixItems ?? (Array.isArray(items) ? items : []);
    const others = (Array.isArray(items) ? additionalItems : items) ?? true;
    if (!Array.isArray(ordered)) throw new BadSchema(path, "prefixItems", "it is no list of schemas");
    const { least, most } = this.#counts(schema, "minItems", "maxItems", path);
    if (ordered.length === 0) {
      if (others === false || most === 0) return this.#add('"[" ws "]"');
      if (others === true && least === 0 && most === undefined) return this.#base("array");
      const item = this.read(others, join(path, "items"), NONE);
      return this.#add(`"[" ws ${this.#listed(item, least, most)} ws "]"`);
    }
    const kept = ordered.slice(0, most);
    const read = kept.map((one, index) => this.read(one, join(path, `prefixItems.${index}`), NONE));
    const left = Math.max(0, least - read.length);
    const open = others !== false && (most === undefined || most > read.length);
    if (left > 0 && !open) throw new BadSchema(path, "minItems", "there are not so many items");
    const more = open ? this.#add(`"," ws ${this.read(others, join(path, "items"), NONE)}`) : "";
    const rest = open ? ` ${more}{${left},${most === undefined ? "" : most - read.length}}` : "";
    return this.#add(`"[" ws ${read.join(' "," ws ')}${rest} ws "]"`);
  }

  #string(schema: Json, path: string): string {
    const { least, most } = this.#counts(schema, "minLength", "maxLength", path);
    const patterns = [schema.pattern ?? []].flat();
    const formats = [schema.format ?? []].flat();
    if (patterns.some((pattern) => typeof pattern !== "string")) throw new BadSchema(path, "pattern", "it is no text");
    const free = patterns.length + formats.length === 0;
    if (free && (!this.#bare || (least === 0 && most === undefined))) return this.#text(least, most);
    return this.#once([patterns, formats, least, most], path, (tell) => {
      const named: [keyword: string, language: Language | string][] = [
        ...patterns.map((one): [string, Language | string] => [
          "pattern",
          this.#to.language((work) => patternOf(one as string, work)),
        ]),
        // Beside its pattern, the name of a format that is not known is a label.
        ...formats
          .filter((one) => patterns.length === 0 || isFormat(one))
          .map((one): [string, Language | string] => ["format", this.#formatOf(one)]),
      ];
      let whole = this.#bare?.texts ?? any("text");
      const narrow = (keyword: string, language: Language | string) => {
        const both =
          typeof language === "string" ? language : this.#to.language((work) => intersection(whole, language, work));
        if (typeof both !== "string" && !both.isEmpty) whole = both;
        else tell(keyword, typeof both === "string" ? both : "no text obeys it together with the rest");
      };
      for (const [keyword, language] of named) narrow(keyword, language);
      if (least > 0 || most !== undefined) {
        const counted = this.#to.language((work) => patternOf(`^[^]{${least},${most ?? ""}}$`, work));
        narrow(most === undefined ? "minLength" : "maxLength", counted);
      }
      const rule = this.#to.automaton(whole, !this.#bare, this.#tagless);
      if (rule !== undefined) return rule;
      for (const [keyword] of named) tell(keyword, TOO_MANY);
      if (this.#bare && free) tell("maxLength", TOO_MANY);
      return this.#text(least, most);
    });
  }

  #formatOf(format: unknown): Language | string {
    if (!isFormat(format)) return `${toJson(format)} is none that is known here`;
    return this.#to.language((work) => textsOf(FORMATS[format] as string, work));
  }

  /** A rule that is made once for what it depends on; what it leaves out is told at each place. */
  #once(key: unknown, path: string, make: (tell: (keyword: string, why: string) => void) => string): string {
    const { rule, left } = this.#to.once(toJson([key, this.#tagless, this.#bare?.rule]), () => {
      const left: [keyword: string, why: string][] = [];
      return { rule: make((keyword, why) => left.push([keyword, why])), left };
    });
    for (const [keyword, why] of left) this.#tell(path, keyword, why);
    return rule;
  }

  /** A text of any characters. */
  #text(least: number, most: number | undefined): string {
    if (this.#bare || (least === 0 && most === undefined)) return this.#base("string");
    return this.#add(`"\\"" ${this.#base("char")}{${least},${most ?? ""}} "\\""`);
  }

  #number(schema: Json, integer: boolean, path: string): string {
    const bounds: (Bound & { keyword: string })[] = [];
    for (const [keyword, side, strict] of [
      ["minimum", "below", false],
      ["exclusiveMinimum", "below", true],
      ["maximum", "above", false],
      ["exclusiveMaximum", "above", true],
    ] as const) {
      const value = schema[keyword];
      // In draft 4 it is said of `minimum` and `maximum` whether they are exclusive.
      if (value === undefined || typeof value === "boolean") continue;
      if (!isNumber(value)) throw new BadSchema(path, keyword, "it is no number");
      const said = schema[side === "below" ? "exclusiveMinimum" : "exclusiveMaximum"] === true;
      bounds.push({ keyword, value, exclusive: strict || said, side });
    }
    const { multipleOf } = schema;
    const free = integer ? "integer" : "number";
    const trivial = multipleOf === undefined || (integer && multipleOf === 1);
    if (bounds.length === 0 && trivial) return free;
    return this.#once([free, bounds, multipleOf], path, (tell) => {
      const within =
        bounds.length === 0 ? any(free) : this.#to.language((work) => numbersWithin(bounds, integer, work));
      if (typeof within === "string") for (const { keyword } of bounds) tell(keyword, within);
      let whole = typeof within === "string" ? any(free) : within;
      const none = (keyword: string) => new BadSchema(path, keyword, `no ${free} is within the bounds`);
      if (whole.isEmpty) throw none(bounds.at(-1)?.keyword ?? "");
      if (!trivial) {
        const multiples = this.#multiplesOf(multipleOf);
        const both =
          typeof multiples === "string" ? multiples : this.#to.language((work) => intersection(whole, multiples, work));
        if (typeof both === "string") tell("multipleOf", both);
        else if (both.isEmpty) throw none("multipleOf");
        else whole = both;
      }
      const rule = this.#to.automaton(whole, false, false);
      if (rule === undefined && !trivial) tell("multipleOf", TOO_MANY);
      if (rule === undefined) for (const { keyword } of bounds) tell(keyword, TOO_MANY);
      return rule ?? free;
    });
  }

  #multiplesOf(divisor: unknown): Language | string {
    if (Number.isInteger(divisor) && (divisor as number) > 0 && (divisor as number) <= MOST_DIVISOR) {
      return this.#to.language((work) => multiplesOf(divisor as number, work));
    }
    // 0.01 is two digits behind the point.
    const places = -Math.log10(divisor as number);
    if (Number.isInteger(places) && places > 0)
      return this.#to.language((work) => textsOf(`-?[0-9]{1,12}(?:\\.[0-9]{1,${places}})?`, work));
    return `a grammar does not divide by ${toJson(divisor)}`;
  }

  /** Counts that repetitions of a rule can have; those that are too large are told. */
  #counts(schema: Json, least: string, most: string, path: string) {
    const counts: { least: number; most: number | undefined } = { least: 0, most: undefined };
    for (const [keyword, side] of [
      [least, "least"],
      [most, "most"],
    ] as const) {
      const value = schema[keyword];
      if (value === undefined) continue;
      if (!isCount(value)) throw new BadSchema(path, keyword, "it is no count");
      if (this.#to.takeRepeated(value)) counts[side] = value;
      else this.#tell(path, keyword, `repetitions are counted up to ${MOST_COUNT}, and up to ${MOST_REPEATED} in all`);
    }
    if (counts.most !== undefined && counts.least > counts.most)
      throw new BadSchema(path, most, `it is below '${least}'`);
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
const join = (path: string, step: string) => (path === "" ? step : `${path}.${step}`);
