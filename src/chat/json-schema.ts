/** Tools' parameters as JSON Schemas: those of MCP servers, of programs, and of requests. */
import { createRequire } from "node:module";
import { LRUCache } from "lru-cache";
import type { JsonSchemaParameters } from "../core/task/parameters.js";
import { mapBigints, toJson } from "../core/util/json.js";
import { translated, Untranslatable } from "./patterns.js";

/** The error of the arguments, in one line; undefined if they are valid. */
type Check = JsonSchemaParameters["problem"];
type Validate = (args: unknown) => { valid: boolean; errorMessage: string | undefined };
interface Validator {
  getValidator(schema: object): Validate;
  /** The engine for a schema's draft; private to the library, whose version is pinned. */
  _engineFor(schema: object): { opts: { code: { regExp: unknown } } };
}

const require = createRequire(import.meta.url);
let shared: Validator | undefined;

/** Loaded when the first JSON Schema is compiled, since most programs that import hone have none. */
function newValidator(): Validator {
  const { AjvJsonSchemaValidator } = require("@modelcontextprotocol/client/validators/ajv") as {
    AjvJsonSchemaValidator: new () => Validator;
  };
  class OtherDialects extends AjvJsonSchemaValidator {
    override _engineFor(schema: object) {
      const engine = super._engineFor(schema);
      engine.opts.code.regExp = regExp;
      return engine;
    }
  }
  return new OtherDialects();
}

/** As ajv asks for it; `code` is for programs that write its functions to a file. */
const regExp = Object.assign((pattern: string) => translated(pattern), { code: "translated" });

function validatorFor(schema: Readonly<Record<string, unknown>>): Validator {
  // A validator caches schemas by $id, so another tool's schema with the same $id would be used for this one.
  if ("$id" in schema) return newValidator();
  shared ??= newValidator();
  return shared;
}

/** Keywords whose values are data, not schemas. */
const DATA = new Set(["const", "enum", "default", "examples", "example"]);
/** Keywords with a schema for each name. */
const NAMED = new Set(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]);

/**
 * The schema without patterns that cannot be translated.
 *
 * @param names whether the keys are names
 * @param left is told each pattern that is left out
 */
function withTranslatable(value: unknown, names: boolean, left: (pattern: string, why: string) => void): unknown {
  if (Array.isArray(value)) return value.map((one) => withTranslatable(one, false, left));
  if (typeof value !== "object" || value === null) return value;
  const fits = (pattern: string) => {
    try {
      return Boolean(translated(pattern));
    } catch (error) {
      if (!(error instanceof Untranslatable)) throw error;
      left(pattern, error.message);
      return false;
    }
  };
  const entries = Object.entries(value).flatMap(([key, own]): [string, unknown][] => {
    if (!names && key === "pattern" && typeof own === "string") return fits(own) ? [[key, own]] : [];
    if (!names && DATA.has(key)) return [[key, own]];
    return [[key, withTranslatable(own, !names && NAMED.has(key), left)]];
  });
  const result: Record<string, unknown> = Object.fromEntries(entries);
  const { patternProperties: patterns } = result;
  if (names || typeof patterns !== "object" || patterns === null) return result;
  const kept = Object.entries(patterns).filter(([pattern]) => fits(pattern));
  if (kept.length === Object.keys(patterns).length) return result;
  // Which properties are others is not known then.
  const { additionalProperties: _, unevaluatedProperties: __, ...rest } = result;
  return { ...rest, patternProperties: Object.fromEntries(kept) };
}

/**
 * @param left is told each pattern that arguments are not held to
 * @throws Error when the schema is not a valid one
 */
function compile(
  schema: Readonly<Record<string, unknown>>,
  validator: Validator,
  left: (pattern: string, why: string) => void = () => undefined,
): Check {
  const validate = validator.getValidator(withTranslatable(schema, false, left) as object);
  return (args) => {
    // The validator knows numbers alone.
    const { valid, errorMessage } = validate(mapBigints(args, Number));
    if (valid) return undefined;
    // "data/path must be string, data must have …": remove the validator's name for the arguments.
    return (errorMessage ?? "wrong arguments").replace(/(^|, )data\//g, "$1").replace(/(^|, )data (must)/g, "$1$2");
  };
}

/**
 * Parameters of a tool as a JSON Schema (2020-12, or the draft that its `$schema` names). The schema is shown to the
 * model unchanged, and arguments are checked against it; patterns of other dialects than JavaScript's where they mean one thing.
 *
 * @throws TypeError when it is not an object's schema, or not a valid schema
 */
export function jsonSchema(schema: Readonly<Record<string, unknown>>): JsonSchemaParameters {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema) || schema.type !== "object") {
    throw new TypeError('a tool\'s JSON Schema must have "type": "object"');
  }
  try {
    const unchecked = new Set<string>();
    const left = (pattern: string, why: string) =>
      void unchecked.add(`the pattern ${pattern.slice(0, MOST_SHOWN)} is not checked: ${why}`);
    const problem = compile(schema, validatorFor(schema), left);
    return { jsonSchema: schema, unchecked: [...unchecked], problem };
  } catch (error) {
    throw new TypeError(`a tool's JSON Schema cannot be used: ${error instanceof Error ? error.message : error}`);
  }
}

/** Characters of a pattern that are told. */
const MOST_SHOWN = 100;

const DRAFT_7 = "http://json-schema.org/draft-07/schema#";

/** By their JSON: a program may write its tools anew for every request. */
const requested = new LRUCache<string, Check>({ max: 128 });

/**
 * What is wrong with arguments by the schema of a request, in one line. Clients' schemas are not held to the rules of
 * {@link jsonSchema}: the type may be left out, and the draft, which is then 2020-12 or else 7. Nothing is wrong by a schema
 * that no validator takes.
 */
export function problemByRequest(
  schema: Readonly<Record<string, unknown>>,
  args: Readonly<Record<string, unknown>>,
): string | undefined {
  const key = toJson(schema);
  const check = requested.get(key) ?? lenient(schema);
  requested.set(key, check);
  return check(args);
}

function lenient(schema: Readonly<Record<string, unknown>>): Check {
  const { $schema: draft, ...rest } = schema;
  for (const attempt of [...(draft === undefined ? [] : [schema]), rest, { ...rest, $schema: DRAFT_7 }]) {
    try {
      // Of its own: a validator keeps every schema, and programs may write others for each rollout.
      return compile(attempt, newValidator());
    } catch {
      // Another draft may be meant; a schema of none says nothing of the arguments.
    }
  }
  return () => undefined;
}
