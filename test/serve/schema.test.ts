/**
 * Grammars of JSON Schemas, those of zod and pydantic among them. What they let pass is sampled with a model whose tokens are
 * bytes, and checked by a validator that we did not write.
 */
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { formatNamed } from "../../src/chat/formats/formats.js";
import { jsonSchema } from "../../src/chat/json-schema.js";
import type { Engine } from "../../src/core/engine/engine.js";
import type { FieldTag } from "../../src/core/rollout/conversation.js";
import { mapBigints, parseJson, toJson } from "../../src/core/util/json.js";
import { type Language, Languages } from "../../src/serve/automata.js";
import { patternOf } from "../../src/serve/expressions.js";
import { type Bound, numbers, within } from "../../src/serve/ranges.js";
import { Rules } from "../../src/serve/rules.js";
import { BadSchema, Converter } from "../../src/serve/schema.js";
import { prompt, testEngine } from "../engine/support.js";
import { tiny } from "../engine/tiny-model.js";

let engine: Engine;
beforeAll(async () => {
  engine = await testEngine();
});

type Schema = Readonly<Record<string, unknown>>;

function converted(schema: unknown, tagless = false) {
  const rules = new Rules();
  const converter = new Converter(rules);
  const root = converter.rule(schema, tagless);
  return { rules: rules.text(root), notEnforced: converter.notEnforced };
}

async function turn(rules: string, seed: number, maxTokens: number, before?: number[]) {
  const sequence = engine.open(prompt("A turn: "));
  const stop = [tiny.end, tiny.endOfText];
  const more = before ? { before } : {};
  try {
    const sampling = { seed, temperature: 2 };
    const turn = await sequence.generate({ maxTokens, sampling, stop, grammar: { rules }, ...more });
    const ids = [...turn.tokens].filter((id) => !stop.includes(id));
    return { stop: turn.stop, text: Buffer.from(engine.bytes(ids)).toString("utf8") };
  } finally {
    sequence.close();
  }
}

/** Whether a text is one of a schema's, from its beginning to its end. */
async function accepts(schema: unknown, text: string, tagless = false): Promise<boolean> {
  const { rules } = converted(schema, tagless);
  // What may go on, as a number, is seen to end by what stands behind it.
  const quoted = rules.replace(/^root ::= (.*)/, 'root ::= "<" $1 ">"');
  try {
    return (await turn(quoted, 1, 1, [...Buffer.from(`<${text}>`)])).stop === "stop";
  } catch (error) {
    if (/does not obey/.test(String(error))) return false;
    throw error;
  }
}

/** Samples texts of a schema; those that came to their end. */
async function sampled(schema: Schema, times = 6) {
  const { rules, notEnforced } = converted(schema);
  const turns = await Promise.all(Array.from({ length: times }, (_, seed) => turn(rules, seed, 1200)));
  return { notEnforced, whole: turns.filter(({ stop }) => stop === "stop").map(({ text }) => text) };
}

const object = (properties: object, required: string[] = Object.keys(properties), more: object = {}) => ({
  type: "object",
  properties,
  required,
  ...more,
});

const { schemas: pydantic } = parseJson(readFileSync(new URL("pydantic-schemas.json", import.meta.url), "utf8")) as {
  schemas: Record<string, Schema>;
};

describe("schemas of pydantic", () => {
  const left: Record<string, RegExp[]> = {
    unenforced: [/properties\.unique: 'uniqueItems'/, /properties\.secret: 'format'/, /properties\.file: 'format'/],
  };

  test.each(Object.keys(pydantic))("%s", async (name) => {
    const schema = pydantic[name] as Schema;
    const { notEnforced, whole } = await sampled(schema);
    expect(notEnforced).toEqual((left[name] ?? []).map((line) => expect.stringMatching(line)));
    // The validator knows numbers alone, and schemas of objects.
    const { problem } = jsonSchema({ type: "object", ...mapBigints(schema, Number) });
    const problems = whole.map((text) => problem(parseJson(text)));
    // Items that are equal are what this grammar does not see.
    if (name !== "unenforced") expect(problems).toEqual(whole.map(() => undefined));
    expect(whole.length).toBeGreaterThan(0);
  });
});

describe("arguments in tags", () => {
  const { grammar, read } = formatNamed("qwen3coder");
  /** Samples calls of a tool, and reads them. */
  async function called(parameters: Schema, times = 6) {
    const rules = new Rules();
    const converter = new Converter(rules);
    const json = (schema: object) => converter.rule(schema, true);
    const fields = (schema: object, tag: FieldTag) => converter.fields(schema, tag);
    const tools = [{ name: "f", parameters }];
    const text = rules.text(grammar({ tools, many: false, sample: "", json, fields }));
    const turns = await Promise.all(Array.from({ length: times }, (_, seed) => turn(text, seed, 1200)));
    const whole = turns.filter(({ stop }) => stop === "stop").map((one) => read(one.text, tools));
    return { text, notEnforced: converter.notEnforced, whole };
  }

  test.each(Object.keys(pydantic))("are valid once they are read: %s", async (name) => {
    const schema: Schema = { type: "object", ...(pydantic[name] as Schema) };
    const { whole } = await called(schema);
    const { problem } = jsonSchema(mapBigints(schema, Number) as Schema);
    for (const { calls, content } of whole) {
      expect(content).toBe("");
      for (const one of calls) {
        if (one.kind === "malformed") throw new Error(one.reason);
        // Bytes that are no UTF-8 may be one character to a grammar, and are several here.
        if (toJson(one.call.arguments).includes("\ufffd")) continue;
        expect(problem(one.call.arguments)).toBeUndefined();
      }
    }
    // Any byte is as likely as the next here: texts without a limit of their length do not come upon their closing tag.
    const endless = ["decimal", "texts", "optionals", "unenforced"].includes(name);
    if (!endless) expect(whole.length).toBeGreaterThan(0);
  });

  test("hold texts as they are, but for the tags that would end them", async () => {
    const schema = object({ text: { type: "string" }, list: { type: "array", items: { type: "string" } } }, ["text"]);
    const { text } = await called(schema, 0);
    const obeys = async (written: string) => {
      const begun = turn(text, 1, 1, [...Buffer.from(written)]);
      return await begun.then(
        ({ stop }) => stop === "stop",
        (error) => !/does not obey/.test(String(error)),
      );
    };
    const of = (value: string, more = "") =>
      `<tool_call>\n<function=f>\n<parameter=text>\n${value}\n</parameter>\n${more}</function>\n</tool_call>`;
    for (const value of ['"quoted"', "<b>é</b> </param", "\n\n", "", "null", "</function>"]) {
      expect([value, await obeys(of(value))]).toEqual([value, true]);
      expect(read(of(value), [{ name: "f", parameters: schema }]).calls).toMatchObject([
        { call: { arguments: { text: value } } },
      ]);
    }
    for (const value of ["</parameter>", "<parameter=list>", "</tool_call>"])
      expect([value, await obeys(of(value))]).toEqual([value, false]);
    expect(await obeys(of("x", '<parameter=list>\n["a"]\n</parameter>\n'))).toBe(true);
    expect(await obeys(of("x", "<parameter=list>\na\n</parameter>\n"))).toBe(false);
    expect(await obeys(of("x", "<parameter=other>\na\n</parameter>\n"))).toBe(false);
  });

  test("have lengths, patterns and values, and say what is not enforced", async () => {
    const schema = object({
      short: { type: "string", minLength: 2, maxLength: 4 },
      day: { type: "string", format: "date" },
      kind: { enum: ["a b", 1, null] },
      many: { type: "array", uniqueItems: true, items: { type: "integer" }, maxItems: 2 },
    });
    const { whole, notEnforced } = await called(schema);
    expect(notEnforced).toEqual([expect.stringMatching(/properties\.many: 'uniqueItems' is not enforced/)]);
    expect(whole.length).toBeGreaterThan(0);
    for (const { calls } of whole) {
      const { short, day, kind } = (calls[0] as { call: { arguments: Record<string, unknown> } }).call.arguments;
      expect([...(short as string)].length).toBeGreaterThanOrEqual(2);
      expect([...(short as string)].length).toBeLessThanOrEqual(4);
      expect(day).toMatch(/^\d{4}-\d\d-\d\d$/);
      expect(["a b", 1, null]).toContain(kind);
    }
  });
});

describe("schemas of zod", () => {
  const Tree = z.object({
    name: z.string().max(5),
    get kids() {
      return z.array(Tree).max(2).optional();
    },
  });
  const types: Record<string, z.ZodType> = {
    int: z.object({ n: z.number().int() }),
    optional: z.object({ a: z.string().max(9).optional(), b: z.number().nullish(), c: z.boolean().default(true) }),
    ids: z.object({ id: z.uuid(), ip: z.ipv4(), six: z.ipv6(), mail: z.email() }),
    times: z.object({ at: z.iso.datetime(), day: z.iso.date(), took: z.iso.duration() }),
    texts: z.object({
      some: z
        .string()
        .regex(/^[a-c]+$/)
        .min(2)
        .max(5),
      begins: z.string().startsWith("ab").max(6),
      has: z.string().includes("x").max(6),
      coded: z.base64().max(8),
    }),
    numbers: z.object({
      share: z.number().min(0).max(1),
      count: z.int().positive(),
      below: z.number().gt(-3.5).lt(0),
      fives: z.int().multipleOf(5).min(-100),
      cents: z.number().multipleOf(0.01).nonnegative(),
    }),
    lists: z.object({ pair: z.tuple([z.boolean(), z.int()]).rest(z.null()), few: z.array(z.int()).min(1).max(3) }),
    records: z.object({ any: z.record(z.string().max(3), z.int()), named: z.record(z.enum(["x", "y"]), z.int()) }),
    both: z.object({ a: z.object({ x: z.int() }).and(z.object({ y: z.enum(["p", "q"]) })) }),
    either: z.discriminatedUnion("k", [
      z.object({ k: z.literal("a"), x: z.int() }),
      z.object({ k: z.literal("b"), y: z.boolean() }),
    ]),
    tree: Tree,
  };

  test.each(Object.keys(types))("%s", async (name) => {
    const type = types[name] as z.ZodType;
    const { notEnforced, whole } = await sampled(z.toJSONSchema(type) as Schema);
    expect(notEnforced).toEqual([]);
    for (const text of whole) expect(type.safeParse(JSON.parse(text)).error).toBeUndefined();
    expect(whole.length).toBeGreaterThan(0);
  });
});

describe("a grammar lets pass", () => {
  const passing: [what: string, schema: unknown, yes: string[], no: string[]][] = [
    [
      "properties in their order, optional ones or not",
      object({ a: { type: "null" }, b: { type: "null" }, c: { type: "null" } }, ["b"]),
      ['{"b":null}', '{"a": null, "b": null}', '{"b": null,\n  "c": null}', '{"a":null,"b":null,"c":null}'],
      ["{}", '{"a":null}', '{"b":null,"a":null}', '{"b":null,}', '{"b":null,"d":null}'],
    ],
    ["none of them", object({ a: { type: "null" } }, []), ["{}", '{ "a":null }'], ['{"a":null,"a":null}']],
    ["integers of 20 digits", { type: "integer" }, ["12345678901234567890", "-7"], ["1.0", "1e3", "01"]],
    [
      "texts of as many characters",
      { type: "string", minLength: 2, maxLength: 3 },
      ['"éé"', '"a\\nb"'],
      ['"a"', '"aaaa"'],
    ],
    ["exponents only without bounds", { type: "number" }, ["1.5e-7"], ["1e999"]],
    [
      "numbers within bounds",
      { type: "number", minimum: -1.5, exclusiveMaximum: 10 },
      ["-1.5", "9.99", "-0.25"],
      ["10", "-1.51"],
    ],
    [
      "objects and lists as values",
      { enum: [{ a: [1, 1234567890123456789n] }, "x"] },
      ['{"a":[1,1234567890123456789]}', '"x"'],
      ["{}", '{"a":[1,1234567890123456800]}'],
    ],
    [
      "values and names that begin alike",
      object({ a: { enum: [1, 12, 123, "é", "éa", "🙂", "🙁"] }, ab: { type: "null" }, "": { type: "null" } }, []),
      ['{"a":1}', '{"a":123,"ab":null}', '{"a":"éa"}', '{"a":"🙁"}', '{"":null}', '{"a":12,"":null}', "{}"],
      ['{"a":2}', '{"a":"🙃"}', '{"ab":null,"a":1}', '{"b":null}'],
    ],
    [
      "what two schemas demand together",
      {
        allOf: [object({ a: { type: "integer" } }), { $ref: "#/$defs/b" }],
        $defs: { b: object({ a: { minimum: 3 }, b: true }) },
      },
      ['{"a":3,"b":[]}'],
      ['{"a":2,"b":1}', '{"a":3}', '{"b":1}'],
    ],
    [
      "keywords beside alternatives",
      object({ a: { type: "null" }, b: { type: "null" } }, [], { anyOf: [{ required: ["a"] }, { required: ["b"] }] }),
      ['{"a":null}', '{"b":null}', '{"a":null,"b":null}'],
      ["{}"],
    ],
    [
      "alternatives with the property that tells them apart, though none requires it",
      {
        oneOf: [{ $ref: "#/$defs/cat" }, object({ kind: { const: "dog" } }, [])],
        discriminator: { propertyName: "kind" },
        $defs: { cat: object({ kind: { const: "cat" }, n: { type: "null" } }, ["n"]) },
      },
      ['{"kind":"cat","n":null}', '{"kind":"dog"}'],
      ['{"n":null}', "{}"],
    ],
    [
      "alternatives within such alternatives",
      {
        oneOf: [{ $ref: "#/$defs/cat" }, object({ kind: { const: "dog" } }, [])],
        discriminator: { propertyName: "kind" },
        $defs: {
          cat: {
            oneOf: [1, 2].map((n) => object({ kind: { const: "cat" }, n: { const: n } }, ["kind"])),
            discriminator: { propertyName: "n" },
          },
        },
      },
      ['{"kind":"cat","n":2}', '{"kind":"dog"}'],
      ['{"kind":"cat"}', "{}"],
    ],
    [
      "keywords beside a reference",
      { $ref: "#/$defs/text", maxLength: 2, $defs: { text: { type: "string", minLength: 2 } } },
      ['"ab"'],
      ['"a"', '"abc"'],
    ],
    [
      "schemas that refer to themselves",
      {
        $ref: "#/$defs/list",
        $defs: { list: { anyOf: [{ type: "null" }, object({ next: { $ref: "#/$defs/list" } })] } },
      },
      ["null", '{"next":{"next":null}}'],
      ['{"next":1}', "{}"],
    ],
    [
      "halves of a character in pairs, which are one",
      { type: "string", minLength: 1, maxLength: 1 },
      ['"\\ud83D\\uDe00"', '"\\u00e9"', '"\\ufffd"', '"\\ud7ff"'],
      ['"\\ud83d"', '"\\ude00"', '"\\ud83d\\n"', '"\\u00e9\\u00e9"'],
    ],
    ["escapes that a pattern asks for", { pattern: '^["\\\\\\n/]+$' }, ['"\\"\\\\\\n/"'], ['"\\/"', '"a"']],
    [
      "the items of older drafts",
      { type: "array", items: [{ type: "null" }], additionalItems: false },
      ["[null]"],
      ["[]", "[null,null]"],
    ],
    [
      "names by a pattern",
      { type: "object", patternProperties: { "^a+$": { type: "null" } } },
      ["{}", '{"aa":null}'],
      ['{"b":null}'],
    ],
    ["any value where nothing is said", {}, ["[{}]", '"x"', "null"], ["x", "[,]"]],
  ];

  test.each(passing)("%s", async (_, schema, yes, no) => {
    expect(await Promise.all(yes.map(async (text) => [text, await accepts(schema, text)]))).toEqual(
      yes.map((text) => [text, true]),
    );
    expect(await Promise.all(no.map(async (text) => [text, await accepts(schema, text)]))).toEqual(
      no.map((text) => [text, false]),
    );
  });

  test("an alternative that is demanded beside the others, too", async () => {
    const schema = {
      $ref: "#/$defs/E",
      anyOf: [{ $ref: "#/$defs/E" }, { type: "number", maximum: 0 }],
      $defs: { E: { enum: [2, null] } },
    };
    expect(await Promise.all(["null", "2", "0"].map((text) => accepts(schema, text)))).toEqual([true, true, false]);
  });

  test("no closing tag where it would end a call, in texts, names, values and patterns", async () => {
    const schema = object({
      "</b>": { const: "</c>" },
      t: { type: "string" },
      p: { type: "string", pattern: "^[</a]*$" },
    });
    const with_ = (t: string, p: string) => `{"<\\/b>":"<\\/c>","t":"${t}","p":"${p}"}`;
    for (const text of [with_("a <<b", "<<a"), with_("<\\/b>", "<\\/"), with_("<\\u002f", "")]) {
      expect([text, await accepts(schema, text, true)]).toEqual([text, true]);
    }
    for (const text of [with_("</b>", ""), with_("", "</"), with_("a <</", "")]) {
      expect([text, await accepts(schema, text, true)]).toEqual([text, false]);
    }
    expect(await accepts(schema, '{"</b>":"</c>","t":"</","p":"</"}')).toBe(true);
  });
});

describe("what a grammar does not express", () => {
  const told: [keyword: string, schema: object][] = [
    ["pattern", object({ a: { type: "string", pattern: "\\bx" } })],
    ["pattern", object({ a: { type: "string", pattern: "(?<=n)x" } })],
    ["pattern", object({ a: { type: "string", pattern: "(a|b)*a(a|b){20}" } })],
    ["format", object({ a: { type: "string", format: "password" } })],
    ["maxLength", object({ a: { type: "string", maxLength: 5000 } })],
    ["uniqueItems", object({ a: { type: "array", uniqueItems: true } })],
    ["maxItems", object({ a: { type: "array", maxItems: 1e6 } })],
    ["contains", object({ a: { type: "array", contains: { const: 1 } } })],
    ["multipleOf", object({ a: { type: "number", multipleOf: 0.3 } })],
    ["patternProperties", object({ a: {} }, ["a"], { patternProperties: { "^x": {} } })],
    ["minProperties", object({ a: {}, b: {} }, [], { minProperties: 1 })],
    ["not", object({ a: { type: "string", not: { const: "x" } } })],
    ["if", { if: {}, type: "object" }],
    ["surprise", object({ a: { surprise: 1 } })],
    ["properties", object(Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`p${at}`, {}])), [])],
    ["$ref", object({ a: { $ref: "https://example.org/schema" } })],
    ["$ref", { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } }],
    ["additionalProperties", { allOf: [object({ a: {} }, [], { additionalProperties: false }), object({ b: {} })] }],
  ];

  test.each(told)("is told by its keyword, and the rest obeyed: %s (%#)", async (keyword, schema) => {
    const { rules, notEnforced } = converted(schema);
    expect(notEnforced).toEqual([expect.stringContaining(`'${keyword}' is not enforced: `)]);
    const { text } = await turn(rules, 3, 400);
    expect(text.length).toBeGreaterThan(0);
  });

  test("is told where it stands, and so often that it can be read", () => {
    const properties = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`p${at}`, { not: {} }]));
    const { notEnforced } = converted(object(properties));
    expect(notEnforced[0]).toMatch(/^at properties\.p0: 'not' is not enforced: /);
    expect(notEnforced).toHaveLength(33);
    expect(notEnforced.at(-1)).toBe("and 68 more");
  });

  test("is too much: references that grow without bound, repetitions, patterns", () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 30 }, (_, level) => {
        const next = level === 29 ? { type: "string" } : { $ref: `#/$defs/d${level + 1}`, minLength: level };
        return [`d${level}`, object({ a: next, b: next })];
      }),
    );
    const counted = Array.from({ length: 100 }, (_, at) => [`p${at}`, { type: "string", maxLength: 900 + at }]);
    const hard = Array.from({ length: 100 }, (_, at) => [`p${at}`, { pattern: `(a|b)*a(a|b){${20 + at}}` }]);
    const many = Array.from({ length: 100 }, (_, at) => [`p${at}`, { pattern: `^a{${900 - at}}$` }]);
    // What stands in several places is one rule.
    const shared = converted({ $defs, $ref: "#/$defs/d0" });
    expect(shared.notEnforced).toEqual([]);
    expect(shared.rules.length).toBeLessThan(100_000);
    for (const properties of [counted, hard, many]) {
      const { rules, notEnforced } = converted(object(Object.fromEntries(properties)));
      expect(notEnforced.length).toBeGreaterThan(10);
      expect(rules.length).toBeLessThan(1_000_000);
    }
  });
});

describe("a schema that is none is refused with the place", () => {
  const refused: [keyword: string, schema: unknown][] = [
    ["type", object({ a: { type: "text" } })],
    ["enum", object({ a: { type: "string", enum: [1] } })],
    ["enum", object({ a: { enum: [] } })],
    ["$ref", object({ a: { $ref: "#/$defs/none" } })],
    ["$ref", object({ a: { $ref: "#/%" } })],
    ["$ref", { oneOf: [object({ a: { const: 1 } }), { $ref: "#/$defs/none" }], discriminator: { propertyName: "a" } }],
    ["required", object({}, ["a"], { additionalProperties: false })],
    ["properties", { type: "object", properties: [] }],
    ["anyOf", { anyOf: [] }],
    ["maxLength", object({ a: { type: "string", minLength: 3, maxLength: 2 } })],
    ["minimum", object({ a: { type: "integer", minimum: "3" } })],
    ["maximum", object({ a: { type: "integer", exclusiveMinimum: 3, maximum: 3 } })],
    ["false", object({ a: false })],
  ];

  test.each(refused)("%s (%#)", (keyword, schema) => {
    expect(() => converted(schema)).toThrow(BadSchema);
    expect(() => converted(schema)).toThrow(`'${keyword}': `);
  });
});

describe("regular languages", () => {
  /** Whether a text is read to its end by a language's automaton. */
  function has(languages: Languages, language: Language): (text: string) => boolean {
    const states = languages.statesOf(language);
    return (text) => {
      const codes = [...text].map((one) => one.codePointAt(0) as number);
      const next = (at: number | undefined, code: number) =>
        states[at ?? -1]?.edges.find(({ ranges }) => ranges.some(({ min, max }) => min <= code && code <= max))?.to;
      return states[codes.reduce<number | undefined>(next, 0) ?? -1]?.final ?? false;
    };
  }

  const patterns = [
    "^x",
    "ab",
    "a$|^b",
    "^$",
    "",
    "a|",
    "(?:^a|b$)",
    "(a)\\1",
    "^[\\w\\-]+$",
    "^(?!.*ab).*$",
    "(?=.*\\d)(?=.*[a-z]).{4,}",
    "^a(?=b)b|c(?!a)",
    "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$",
    "^(\\([01]{3}\\))?[01]{3}-[01]{4}$",
    "^.{2,4}$",
    "^(a(?=b)|b)?b*$",
  ];

  test("are those of JavaScript's regular expressions", () => {
    const text = fc.string({ unit: fc.constantFrom(..."ab01.-+\n(x"), maxLength: 9 });
    for (const pattern of patterns) {
      const languages = new Languages();
      const isFound = has(languages, patternOf(pattern, languages));
      const expression = new RegExp(pattern, "u");
      fc.assert(
        fc.property(text, (text) => {
          expect([pattern, text, isFound(text)]).toEqual([pattern, text, expression.test(text)]);
        }),
      );
    }
  });

  test("of numbers are those within their bounds", () => {
    const number = fc.oneof(
      fc.integer({ min: -2000, max: 2000 }),
      fc.integer({ min: -99999, max: 99999 }).map((value) => value / 1000),
      fc.constantFrom(0, 1e-7, -1e21, 0.1),
    );
    /** Without exponents. */
    const written = (value: number) =>
      /e/.test(String(value))
        ? value.toLocaleString("en", { useGrouping: false, maximumFractionDigits: 12 })
        : String(value);
    const bound = fc.record({ value: number, exclusive: fc.boolean(), side: fc.constantFrom("below", "above") });
    const isIn = (tried: number, { value, exclusive, side }: Bound) =>
      tried === value ? !exclusive : side === "below" ? tried > value : tried < value;
    fc.assert(
      fc.property(fc.array(bound, { maxLength: 2 }), fc.option(number), fc.boolean(), (bounds, other, integer) => {
        const tried = other ?? bounds[0]?.value ?? 0;
        const languages = new Languages();
        const all = [numbers(integer, languages), ...bounds.map((one) => within(one, languages))];
        const accepts = has(languages, languages.all(all))(written(tried));
        const isWhole = Number.isInteger(tried) && Math.abs(tried) < 1e20;
        const expected = bounds.every((one) => isIn(tried, one)) && (integer ? isWhole : Math.abs(tried) < 1e20);
        expect([bounds, tried, integer, accepts]).toEqual([bounds, tried, integer, expected]);
      }),
      { numRuns: 700 },
    );
  });
});
