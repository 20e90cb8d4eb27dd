/** Hostile schemas: what they cost the thread that serves all requests is counted, and bounded for a request. */
import { describe, expect, it, test } from "vitest";
import { parseJson } from "../../src/core/util/json.js";
import { Languages } from "../../src/serve/automata.js";
import { patternOf } from "../../src/serve/expressions.js";
import { ResponseStore } from "../../src/serve/responses-store.js";
import { Rules } from "../../src/serve/rules.js";
import { BadSchema, Converter } from "../../src/serve/schema.js";

function converted(schema: unknown) {
  const rules = new Rules();
  const converter = new Converter(rules);
  const root = converter.rule(schema, false);
  return { rules: rules.text(root), notEnforced: converter.notEnforced, steps: converter.languages.steps };
}
const object = (properties: object) => ({ type: "object", properties, required: Object.keys(properties) });
const pattern = (text: string) => object({ x: { type: "string", pattern: text } });
const many = (count: number, of: (at: number) => object) =>
  object(Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, of(at)])));

/** Steps of a request: each is about a microsecond at most. */
const BOUND = 300_000;

describe("automata of a request together", () => {
  test.each([
    ["assertions in nested repetitions", pattern("^(?:(?:(?:(?:(?:(?=[ab])[ab]?){0,4}){0,4}){0,4}){0,4}){0,4}$")],
    ["300 assertions", pattern("(?=.{0,300}a)".repeat(300))],
    ["40 that are negated", pattern(Array.from({ length: 40 }, (_, at) => `(?!.*${at}.{8}x)`).join(""))],
    ["alternatives with assertions", pattern(Array.from({ length: 400 }, (_, at) => `(?=.{${at}}x).*y`).join("|"))],
    ["repetitions in repetitions", pattern("^((((a{0,99}){0,99}){0,99}){0,99}){0,99}$")],
    ["1,500 bounded numbers", many(1500, (at) => ({ type: "number", minimum: at, maximum: at + 1000.5 }))],
    [
      "alternatives that go on alike",
      pattern(
        `^(${Array.from({ length: 600 }, (_, at) => `[^${String.fromCharCode(97 + (at % 26))}]*${String.fromCharCode(0x4e00 + at)}`).join("|")})$`,
      ),
    ],
    ["many divisors", many(200, (at) => ({ type: "integer", multipleOf: 500 + at }))],
  ])("%s: cost no more than a bound, and what is left out is told", (_, schema) => {
    const { steps, notEnforced } = converted(schema);
    expect(steps).toBeGreaterThan(0);
    expect(steps).toBeLessThanOrEqual(BOUND);
    expect(notEnforced.length).toBeGreaterThan(0);
    expect(notEnforced[0]).toMatch(
      /is not enforced: (its grammar would be too large|the schema has too many of its kind)/,
    );
  });

  it.each([
    "^((((a{0,99}){0,99}){0,99}){0,99}){0,99}$",
    // This is seen to cost too much when it has cost much.
    "(a|b)*a(a|b){20}",
  ])("are made though one of them would cost too much (%#)", (pattern) => {
    const properties = {
      a: { type: "string", pattern },
      b: { type: "string", pattern: "^x" },
      c: { type: "integer", minimum: 0, maximum: 120 },
      d: { type: "string", format: "date" },
    };
    expect(converted(object(properties)).notEnforced).toEqual([expect.stringContaining("at properties.a: 'pattern'")]);
  });

  it("leaves room for what requests ask for: 50 bounded numbers and a dozen patterns", () => {
    const numbers = many(50, (at) => ({ type: "integer", minimum: at, maximum: 1000 + at }));
    expect(converted(numbers)).toMatchObject({ notEnforced: [], steps: expect.toSatisfy((n) => n < 50_000) });
    const patterns = many(12, (at) => ({
      type: "string",
      pattern: `^(?!none$)[A-Z]{2}-\\d{${at + 1}}$`,
      maxLength: 40,
    }));
    expect(converted(patterns).notEnforced).toEqual([]);
    expect(converted(many(2, () => ({ type: "string", format: "uri" }))).notEnforced).toEqual([]);
    const password = "^(?=.*[A-Z])(?=.*[a-z])(?=.*\\d)(?=.*[@$!%*?&])[A-Za-z\\d@$!%*?&]{8,32}$";
    expect(converted(pattern(password)).notEnforced).toEqual([]);
  });

  it("counts the same each time", () => {
    const count = () => {
      const languages = new Languages();
      languages.statesOf(patternOf("^(?=.*a)[a-z]{3,9}$", languages));
      return languages.steps;
    };
    expect(count()).toBe(count());
  });

  it("enforces patterns of other dialects", () => {
    expect(converted(pattern("^https\\:\\/\\/\\w+\\Z")).notEnforced).toEqual([]);
    expect(converted(pattern("^\\h+$")).notEnforced).toEqual([
      expect.stringContaining("it is no regular expression of JavaScript's"),
    ]);
  });
});

it("an enum of 10,000 values is read a character at a time", () => {
  const values = Array.from(
    { length: 10_000 },
    (_, at) => `value ${((at * 2_654_435_761) % 2 ** 32).toString(36)} \u{1f600}`,
  );
  const { rules } = converted({ enum: values });
  const bodies = rules.split("\n");
  expect(Math.max(...bodies.map((body) => body.split(" | ").length))).toBeLessThanOrEqual(40);
  // One begins as another does, or is another.
  expect(converted({ enum: ["a", "ab", "b"] }).rules).toContain('"a" r');
});

describe("schemas that lead back to themselves", () => {
  const node = (beside: object) => ({
    $defs: { n: object({ next: { $ref: "#/$defs/n", ...beside } }) },
    $ref: "#/$defs/n",
  });
  test.each([
    ["keywords beside the reference", node({ minProperties: 1 })],
    ["properties beside it", node({ properties: { more: { type: "string" } } })],
    [
      "itself within allOf",
      { $defs: { n: object({ next: { allOf: [{ $ref: "#/$defs/n" }, { maxProperties: 9 }] } }) }, $ref: "#/$defs/n" },
    ],
    [
      "itself twice",
      { $defs: { n: object({ next: { allOf: [{ $ref: "#/$defs/n" }, { $ref: "#/$defs/n" }] } }) }, $ref: "#/$defs/n" },
    ],
    ["alternatives beside it", node({ anyOf: [{ minProperties: 1 }, { maxProperties: 3 }] })],
    ["the whole, with a keyword", object({ next: { $ref: "#", minProperties: 1 } })],
  ])("%s: it ends, as rules that refer to themselves", (_, schema) => {
    expect(converted(schema).rules.length).toBeLessThan(20_000);
  });

  test("two that grow with each turn are refused with their place", () => {
    const both = (a: string, b: string) =>
      object({ x: { allOf: [{ $ref: `#/$defs/${a}` }, { $ref: `#/$defs/${b}` }] } });
    const growing = { $defs: { a: both("a", "b"), b: both("b", "a") }, $ref: "#/$defs/a" };
    const counted = {
      $defs: {
        a: object({ x: { allOf: [{ $ref: "#/$defs/a" }, object({ y: { $ref: "#/$defs/a", minProperties: 1 } })] } }),
      },
      $ref: "#/$defs/a",
    };
    for (const schema of [growing, counted]) {
      try {
        expect(converted(schema).rules.length).toBeLessThan(1_000_000);
      } catch (error) {
        expect(error).toBeInstanceOf(BadSchema);
      }
    }
  });
});

test("thousands of parts that are merged are refused or merged, however they stand", () => {
  const parts = Array.from({ length: 3000 }, (_, at) => ({ properties: { x: { type: "string", minLength: at % 7 } } }));
  const broad = converted({ type: "object", allOf: parts.slice(0, 500) });
  expect(broad.rules).toContain("{6,}");
  expect(() => converted({ type: "object", allOf: parts })).toThrow(BadSchema);
});

test("thousands of alternatives, each merged with thousands of parts, are refused", () => {
  const alternatives = Array.from({ length: 2000 }, (_, at) => ({ title: `${at}`, minProperties: at % 3 }));
  const schema = {
    $ref: "#/$defs/any",
    allOf: Array.from({ length: 2000 }, () => ({ maxProperties: 9 })),
    $defs: { any: { anyOf: alternatives } },
  };
  expect(() => converted(schema)).toThrow(BadSchema);
});

test("an alternative that is impossible leaves no rule without a body", () => {
  const impossible = { allOf: [{ type: "string" }, { type: "integer" }] };
  const schema = {
    type: "object",
    anyOf: [{ properties: { a: impossible }, required: ["a"] }, { properties: { b: {} } }],
  };
  const { rules } = converted({ ...schema, minProperties: 0 });
  const names = new Set(rules.split("\n").map((line) => line.split(" ")[0]));
  const used = rules.split("\n").flatMap(
    (line) =>
      line
        .replace(/"(\\.|[^"\\])*"|\[(\\.|[^\]\\])*\]/g, " ")
        .split("::=")[1]
        ?.match(/\br\d+\b/g) ?? [],
  );
  for (const name of used) expect(names).toContain(name);
});

test("keywords and properties may have the names of an object's own", () => {
  const names = '{"__proto__": {"type": "string"}, "constructor": {"type": "integer"}, "toString": {}}';
  const schema = parseJson(
    `{"type": "object", "allOf": [{"properties": ${names}, "__proto__": 1, "constructor": 2}, {"properties": ${names}, "__proto__": 1, "constructor": 3, "toString": 4}]}`,
  );
  const { rules, notEnforced } = converted(schema);
  expect(rules).toContain('__proto__\\"');
  expect(notEnforced).toContainEqual(expect.stringMatching(/'constructor' is not enforced/));
});

describe("responses that are kept", () => {
  const said = (text: string) => ({ type: "message" as const, role: "user" as const, content: text });
  const answer = (id: string) => [{ ...said("ok"), id }];

  it("count with all that was sent, so that old ones go", () => {
    const store = new ResponseStore();
    for (let turn = 0; turn < 12; turn++) store.add(`r${turn}`, [said("x".repeat(4 << 20))], answer(`m${turn}`));
    expect(store.conversation("r0")).toBeUndefined();
    expect(store.conversation("r11")).toHaveLength(2);
    const kept = Array.from({ length: 12 }, (_, turn) => store.conversation(`r${turn}`)).filter(Boolean);
    expect(kept.length).toBeLessThan(8);
  });

  it("are those of a conversation that goes on, though each counts for itself", () => {
    const store = new ResponseStore();
    let items: readonly ReturnType<typeof said>[] = [];
    for (let turn = 0; turn < 100; turn++) {
      items = [...items, said("x".repeat(20_000))];
      store.add(`r${turn}`, items, answer(`m${turn}`));
    }
    expect(store.conversation("r99")).toHaveLength(101);
    expect(store.conversation("r0")).toBeUndefined();
    expect(store.item("m0")).toBeDefined();
  });

  it("do not include one that is larger than all room", () => {
    const store = new ResponseStore();
    store.add("r", [said("x".repeat(40 << 20))], answer("m"));
    expect(store.conversation("r")).toBeUndefined();
    expect(store.item("m")).toBeDefined();
  });
});
