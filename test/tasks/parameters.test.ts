import { expect, it } from "vitest";
import { z } from "zod";
import { z as zod3 } from "zod/v3";
import { jsonSchema } from "../../src/chat/json-schema.js";
import { runCall } from "../../src/core/rollout/calls.js";
import { checkArguments, parameterNames } from "../../src/core/task/parameters.js";
import { type AnyTask, defineTask, defineTool, toolSchema } from "../../src/core/task/task.js";

const path = { type: "object", properties: { path: { type: "string", description: "where" } }, required: ["path"] };

it("shows the model a JSON Schema as it stands, but for the line that names its draft", () => {
  const schema = {
    $schema: "http://json-schema.org/draft-07/schema#",
    ...path,
    additionalProperties: false,
    definitions: { any: true },
  };
  const tool = defineTool({ name: "read", description: "Read.", parameters: jsonSchema(schema), execute: () => "" });
  const { $schema: _, ...shown } = schema;
  expect(toolSchema(tool).function.parameters).toEqual(shown);
});

it.each([
  ["zod 3", zod3.object({ path: zod3.string() })],
  ["a plain object", path],
  ["nothing", undefined],
])("refuses parameters of %s, and says what they must be", (_, parameters) => {
  const define = () =>
    defineTool({ name: "read", description: "", parameters: parameters as never, execute: () => "" });
  expect(define).toThrow("a tool's parameters are a z.object of hone's own `z` (zod 4), or jsonSchema({...})");
});

it("holds arguments to a JSON Schema, and says in one line what is wrong", () => {
  const parameters = jsonSchema({ ...path, additionalProperties: false });
  expect(checkArguments(parameters, { path: "a" })).toEqual({ args: { path: "a" } });
  expect(checkArguments(parameters, { path: 1 })).toEqual({ problem: "path must be string" });
  expect(checkArguments(parameters, { file: "a" })).toEqual({
    problem: "must have required property 'path', must NOT have additional properties",
  });
  expect(parameterNames(parameters)).toEqual(["path"]);
});

it("takes schemas that refer to themselves, and the drafts that servers write", () => {
  const tree = {
    type: "object",
    properties: { child: { $ref: "#" }, name: { type: "string" } },
    required: ["name"],
  };
  expect(checkArguments(jsonSchema(tree), { name: "a", child: { name: "b" } })).toHaveProperty("args");
  expect(checkArguments(jsonSchema(tree), { name: "a", child: { name: 1 } })).toEqual({
    problem: "child/name must be string",
  });
  // Draft 7 has lists of schemas in "items", which 2020-12 calls prefixItems.
  const pair = { type: "object", properties: { at: { type: "array", items: [{ type: "number" }] } } };
  const draft7 = jsonSchema({ $schema: "http://json-schema.org/draft-07/schema#", ...pair });
  expect(checkArguments(draft7, { at: ["x"] })).toEqual({ problem: "at/0 must be number" });
});

it("keeps schemas with the same $id apart", () => {
  const one = jsonSchema({ $id: "https://example.com/args", ...path });
  const other = jsonSchema({
    $id: "https://example.com/args",
    type: "object",
    properties: { n: { type: "integer" } },
    required: ["n"],
  });
  expect(checkArguments(one, { path: "a" })).toHaveProperty("args");
  expect(checkArguments(other, { path: "a" })).toEqual({ problem: "must have required property 'n'" });
});

it("holds arguments to patterns of other dialects, and says which it cannot", () => {
  const properties = {
    url: { type: "string", pattern: "^https\\:\\/\\/" },
    id: { type: "string", pattern: "^\\h+$" },
    // Names and data are no patterns.
    pattern: { type: "string", default: { pattern: "\\h" } },
    default: { type: "string", pattern: "(?i)^yes$" },
  };
  const parameters = jsonSchema({
    type: "object",
    properties,
    patternProperties: { "^\\h": true },
    additionalProperties: false,
  });
  expect(parameters.unchecked).toEqual([
    expect.stringMatching(/^the pattern \^\\h\+\$ is not checked: it is no regular expression of JavaScript's/),
    expect.stringMatching(/^the pattern \^\\h is not checked: /),
  ]);
  // Which other names the pattern allows is not known.
  const args = { url: "https://a", id: "x", pattern: "x", default: "YES", other: 1 };
  expect(checkArguments(parameters, args)).toEqual({ args });
  expect(checkArguments(parameters, { ...args, url: "ftp://a" })).toHaveProperty(
    "problem",
    'url must match pattern "^https\\:\\/\\/"',
  );
  expect(checkArguments(parameters, { ...args, default: "no" })).toHaveProperty("problem");
  // Under each draft, and where a reference leads.
  for (const $schema of ["draft/2020-12", "draft/2019-09", "draft-07"].map(
    (one) => `https://json-schema.org/${one}/schema`,
  )) {
    const far = {
      $schema,
      type: "object",
      properties: { a: { $ref: "#/components/A" } },
      components: { A: { pattern: "\\Aa\\z" } },
    };
    expect(checkArguments(jsonSchema(far), { a: "b" })).toHaveProperty("problem");
    expect(checkArguments(jsonSchema(far), { a: "a" })).toHaveProperty("args");
  }
});

it.each([
  [{ type: "array" }, /must have "type": "object"/],
  [{}, /must have "type": "object"/],
  [{ type: "object", properties: { a: { $ref: "#/nowhere" } } }, /cannot be used: .*#\/nowhere/],
  [{ type: "object", $schema: "https://example.com/mine" }, /cannot be used: .*dialect/],
])("refuses %j", (schema, why) => {
  expect(() => jsonSchema(schema)).toThrow(why);
});

it("tells the model what a tool with either kind of parameters takes", async () => {
  const tools = [
    defineTool({ name: "read", description: "", parameters: jsonSchema(path), execute: ({ path }) => path }),
    defineTool({ name: "add", description: "", parameters: z.object({ a: z.number() }), execute: ({ a }) => a + 1 }),
    defineTool({ name: "now", description: "", parameters: jsonSchema({ type: "object" }), execute: () => "noon" }),
  ];
  const task = defineTask({ name: "t", scenarios: () => [], prompt: () => [], tools, reward: () => never() });
  const never = (): never => {
    throw new Error("not asked");
  };
  const call = (name: string, args: Record<string, unknown>) => {
    const running = { task: task as AnyTask, scenario: { id: "s", split: "test", question: "" } as const };
    const limits = { maxTurns: 1, toolSeconds: 5 };
    const signal = new AbortController().signal;
    const written = { kind: "call", call: { name, arguments: args } } as const;
    return runCall(written, 1, { ...running, env: undefined, limits, signal });
  };
  expect((await call("read", { path: "a" })).text).toBe("a");
  expect((await call("read", {})).record).toMatchObject({
    outcome: "bad_arguments",
    result: { error: "must have required property 'path'; read takes path" },
  });
  expect((await call("add", { a: 1 })).record.result).toBe(2);
  expect((await call("add", { a: 1, b: 2 })).record.result).toEqual({ error: 'Unrecognized key: "b"; add takes a' });
  expect((await call("now", {})).record).toMatchObject({ outcome: "ok", result: "noon" });
});

const order = 1234567890123456789n;

it("gives tools integers beyond 2^53 - 1 exactly: as bigints, by the schema", () => {
  const exact = z.object({ order: z.bigint(), more: z.array(z.bigint()).optional() });
  expect(checkArguments(exact, { order })).toEqual({ args: { order } });
  expect(checkArguments(exact, { order: 5, more: [6, order] })).toEqual({ args: { order: 5n, more: [6n, order] } });
  expect(checkArguments(exact, { order: 5.5 })).toHaveProperty("problem");
  expect(checkArguments(z.object({ order: z.union([z.number(), z.bigint()]) }), { order })).toEqual({
    args: { order },
  });
  const fromJson = jsonSchema({ type: "object", properties: { order: { type: "integer" } }, required: ["order"] });
  expect(checkArguments(fromJson, { order })).toEqual({ args: { order } });
  for (const type of [z.number(), z.int()]) {
    expect(checkArguments(z.object({ order: type }), { order })).toEqual({
      problem: "order: 1234567890123456789 is beyond 9007199254740991, the limit here",
    });
  }
});

it("shows the model a bigint as an integer, and refuses types that JSON lacks", () => {
  const tool = { name: "find", description: "Find.", parameters: z.object({ order: z.bigint() }) };
  expect(toolSchema(tool).function.parameters).toMatchObject({ properties: { order: { type: "integer" } } });
  expect(() => toolSchema({ ...tool, parameters: z.object({ day: z.date() }) })).toThrow(
    "the model cannot be shown the parameters of the tool find: Date cannot be represented in JSON Schema",
  );
});
