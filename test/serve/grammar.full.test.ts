/** Forms that requests demand of turns, through OpenAI's own client: a grammar makes the model obey them. */
import type OpenAI from "openai";
import { APIError } from "openai";
import { beforeAll, describe, expect, test } from "vitest";
import { chatOf } from "../../src/chat/chat.js";
import { formatNamed } from "../../src/chat/formats/formats.js";
import { demandsOf, formOf } from "../../src/serve/constrain.js";
import { callFormOf } from "../../src/serve/formats.js";
import { toolsOf } from "../../src/serve/messages.js";
import { ServedModel } from "../../src/serve/model.js";
import { ask, idsOfChoice, type Server, serveTiny, tool } from "./support.js";

type Message = OpenAI.ChatCompletionMessageParam;

let server: Server;
let client: OpenAI;
beforeAll(async () => {
  server = await serveTiny();
  client = server.client;
});

const messages: Message[] = [{ role: "user", content: "Say something." }];
const wild = { messages, temperature: 2, max_tokens: 300 };
const person = {
  type: "object",
  properties: {
    name: { type: "string", maxLength: 12 },
    age: { type: "integer" },
    kind: { enum: ["cat", "dog"] },
    tags: { type: "array", items: { $ref: "#/$defs/tag" }, minItems: 1, maxItems: 3 },
  },
  required: ["name", "age", "kind", "tags"],
  additionalProperties: false,
  $defs: { tag: { anyOf: [{ type: "boolean" }, { type: "null" }] } },
};
const formatOf = (schema: object, strict = true) => ({
  type: "json_schema" as const,
  json_schema: { name: "answer", strict, schema: schema as Record<string, unknown> },
});
const strict = (name: string, parameters: Record<string, unknown>) => {
  const plain = tool(name, parameters);
  return { ...plain, function: { ...plain.function, strict: true } };
};

function expectPerson(value: Record<string, unknown>): void {
  expect(Object.keys(value)).toEqual(["name", "age", "kind", "tags"]);
  expect(typeof value.name).toBe("string");
  expect((value.name as string).length).toBeLessThanOrEqual(12);
  // An integer beyond 2^53 is a bigint.
  expect(typeof value.age === "bigint" || Number.isInteger(value.age)).toBe(true);
  expect(["cat", "dog"]).toContain(value.kind);
  const tags = value.tags as unknown[];
  expect(tags.length).toBeGreaterThanOrEqual(1);
  expect(tags.length).toBeLessThanOrEqual(3);
  for (const tag of tags) expect([true, false, null]).toContain(tag);
}

async function streamed(body: object) {
  const parts: OpenAI.ChatCompletionChunk[] = [];
  const stream = await client.chat.completions.create({
    ...(body as OpenAI.ChatCompletionCreateParamsStreaming),
    model: "tiny",
    stream: true,
  });
  for await (const part of stream) parts.push(part);
  return parts.flatMap(({ choices }) => choices);
}

const callsOf = ({ choices }: { choices: OpenAI.ChatCompletion.Choice[] }) =>
  choices.map(({ message }) =>
    (message.tool_calls ?? []).map((call) => {
      if (call.type !== "function") throw new Error("a call of a function was expected");
      return { name: call.function.name, args: JSON.parse(call.function.arguments) as Record<string, unknown> };
    }),
  );

describe("response_format", () => {
  test("json_schema makes each of several choices an instance, and streams it as it comes", async () => {
    const body = { ...wild, response_format: formatOf(person), seed: 3, n: 3 };
    const { choices } = await ask(client, body);
    for (const { message, finish_reason: finish } of choices) {
      expect(finish).toBe("stop");
      expectPerson(JSON.parse(message.content ?? ""));
    }
    const parts = await streamed({ ...body, n: 1 });
    const texts = parts.flatMap(({ delta }) => delta.content ?? []).filter((text) => text !== "");
    expect(texts.join("")).toBe(choices[0]?.message.content);
    expect(texts.length).toBeGreaterThan(5);
  });

  test("json_object makes an object of any form", async () => {
    const body = {
      ...wild,
      temperature: 1,
      response_format: { type: "json_object" as const },
      seed: 5,
      n: 2,
      max_tokens: 120,
    };
    for (const { message, finish_reason: finish } of (await ask(client, body)).choices) {
      expect(message.content?.[0]).toBe("{");
      if (finish === "stop") expect(typeof JSON.parse(message.content ?? "")).toBe("object");
    }
  });

  test("is cut by max_tokens and by stop texts, which finish_reason tells", async () => {
    const body = { ...wild, response_format: formatOf(person), seed: 3 };
    const [short] = (await ask(client, { ...body, max_tokens: 5 })).choices;
    expect(short?.finish_reason).toBe("length");
    const [stopped] = (await ask(client, { ...body, stop: [","] })).choices;
    expect(stopped?.finish_reason).toBe("stop");
    expect(stopped?.message.content).toMatch(/^\{\s*"name": ?"/);
    expect(stopped?.message.content).not.toContain(",");
  });

  test("many clients with forms of their own are answered at once, beside those without", async () => {
    const names = ["red", "green", "blue", "white", "black", "grey"];
    const answers = await Promise.all(
      names.map((name, seed) => {
        const properties = { [name]: { type: "boolean" } };
        const schema = { type: "object", properties, required: [name], additionalProperties: false };
        return ask(client, { ...wild, seed, ...(seed % 3 === 2 ? {} : { response_format: formatOf(schema) }) });
      }),
    );
    answers.forEach(({ choices }, index) => {
      if (index % 3 === 2) return;
      const value = JSON.parse(choices[0]?.message.content ?? "") as object;
      expect(Object.keys(value)).toEqual([names[index]]);
    });
  });

  test("log-probabilities are those of the free distribution", async () => {
    // The grammar leaves one text, so that under it every token would be certain.
    const only = { type: "object", properties: { q: { const: "zzz" } }, required: ["q"] };
    const body = { ...wild, response_format: formatOf(only), logprobs: true, top_logprobs: 1, seed: 1 };
    const [choice] = (await ask(client, body)).choices;
    expect(JSON.parse(choice?.message.content ?? "")).toEqual({ q: "zzz" });
    const content = choice?.logprobs?.content ?? [];
    // A message's text has no white space around it, which the tokens have.
    expect(
      content
        .map(({ token }) => token)
        .join("")
        .trim(),
    ).toBe(choice?.message.content);
    expect(Math.min(...content.map(({ logprob }) => logprob))).toBeLessThan(-5);
    // The likeliest tokens are told whether or not the grammar lets them pass.
    expect(content.some(({ logprob, top_logprobs: [top] }) => (top?.logprob ?? 0) > logprob)).toBe(true);
  });

  test("a conversation goes on from a turn that had a form", async () => {
    const first = await ask(client, { ...wild, response_format: formatOf(person), seed: 3 });
    const answer = first.choices[0]?.message as OpenAI.ChatCompletionMessageParam;
    const next = await ask(client, {
      ...wild,
      messages: [...messages, answer, { role: "user", content: "Another." }],
      response_format: formatOf(person),
      seed: 4,
    });
    expect(next.hone.continued).toBe(true);
    expectPerson(JSON.parse(next.choices[0]?.message.content ?? ""));
  });

  test("escapes names and texts, and counts characters", async () => {
    const odd = 'a "b" \\ é \n 日';
    const schema = {
      type: "object",
      properties: { [odd]: { enum: [odd, 1.5, null] }, w: { type: "string", minLength: 3, maxLength: 3 } },
      required: [odd, "w"],
    };
    const { choices } = await ask(client, { ...wild, response_format: formatOf(schema), seed: 2, n: 2 });
    for (const { message } of choices) {
      const value = JSON.parse(message.content ?? "") as Record<string, unknown>;
      expect([odd, 1.5, null]).toContain(value[odd]);
      expect(value.w).toHaveLength(3);
    }
  });
});

describe("calls", () => {
  const open = { type: "object", properties: {}, additionalProperties: true };
  const tools = [tool("look", open), strict("keep", person)];

  test("tool_choice required makes a turn of calls, and those of strict tools obey their schema", async () => {
    const turns = callsOf(
      await ask(client, { ...wild, tools, tool_choice: "required", seed: 8, n: 8, max_tokens: 400 }),
    );
    for (const calls of turns) expect(calls.length).toBeGreaterThan(0);
    const kept = turns.flat().filter(({ name }) => name === "keep");
    expect(kept.length).toBeGreaterThan(0);
    for (const { args } of kept) expectPerson(args);
    for (const { name } of turns.flat()) expect(["keep", "look"]).toContain(name);
  });

  test("tool_choice with a name makes calls of that tool, one if parallel_tool_calls is false", async () => {
    const choice = { type: "function" as const, function: { name: "keep" } };
    const body = { ...wild, tools, tool_choice: choice, parallel_tool_calls: false, seed: 2, n: 2 };
    for (const calls of callsOf(await ask(client, body))) {
      expect(calls.map(({ name }) => name)).toEqual(["keep"]);
      expectPerson(calls[0]?.args ?? {});
    }
  });

  test("a call that is streamed obeys too", async () => {
    const choice = { type: "function" as const, function: { name: "keep" } };
    const body = { ...wild, tools, tool_choice: choice, parallel_tool_calls: false, seed: 2 };
    const [call] = (await streamed(body)).flatMap(({ delta }) => delta.tool_calls ?? []);
    expectPerson(JSON.parse(call?.function?.arguments ?? ""));
  });

  const system =
    "You are an email search agent. Use the tools to search and read emails. You may take up to 6 turns. User's email address is a@x.example. Today's date is 2031-01-05.";
  const asking: Message[] = [
    { role: "system", content: system },
    { role: "user", content: "When is the deadline of the project Falcon?" },
  ];

  test("under tool_choice auto strict tools leave texts free, and calls are those of their schema", async () => {
    const search = strict("search_inbox", {
      type: "object",
      properties: { weight: { type: "number" }, on: { type: "string", format: "date" } },
      required: ["weight", "on"],
    });
    // At this temperature the model both calls and writes.
    const body = { messages: asking, tools: [search], temperature: 3, seed: 1, n: 8, max_tokens: 120 };
    const { choices } = await ask(client, body);
    const calling = choices.filter(({ message }) => message.tool_calls?.length);
    expect(calling.length).toBeGreaterThan(0);
    expect(calling.length).toBeLessThan(choices.length);
    for (const { args } of callsOf({ choices: calling }).flat()) {
      expect(Object.keys(args)).toEqual(["weight", "on"]);
      expect(Number.isFinite(args.weight)).toBe(true);
      expect(args.on).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    }
    for (const { message } of choices) expect(message.content ?? "").not.toContain("<tool_call>{");
  });

  test("what the model samples by itself stays as it is where the form lets it pass", async () => {
    const search = tool("search_inbox", { type: "object", properties: { keywords: { type: "array" } } });
    const body = { messages: asking, tools: [search], seed: 11, max_tokens: 60, return_token_ids: true };
    const free = await ask(client, body);
    expect(callsOf(free)[0]).toHaveLength(1);
    const formed = await ask(client, { ...body, parallel_tool_calls: false });
    expect(idsOfChoice(formed.choices[0])).toEqual(idsOfChoice(free.choices[0]));
  });

  test("beside a response format under auto a turn is calls or an answer in the format", async () => {
    const body = { messages: asking, tools: [strict("search_inbox", person)], response_format: formatOf(person) };
    const { choices } = await ask(client, { ...body, temperature: 2, seed: 4, n: 4, max_tokens: 300 });
    for (const { message } of choices) {
      if (message.tool_calls)
        for (const { args } of callsOf({ choices: [{ message } as never] }).flat()) expectPerson(args);
      else expectPerson(JSON.parse(message.content ?? ""));
    }
  });
});

describe("every format of calls", () => {
  const samples: [format: string, sample: string][] = [
    ["hermes", ""],
    ["llama3", '{"name": "look", "parameters": {"at": 1}}'],
    ["llama3", '{"name": "look", "arguments": {"at": 1}}'],
    ["mistral", '[TOOL_CALLS] [{"name": "look", "arguments": {"at": 1}}]'],
    ["mistral", "[TOOL_CALLS]look[ARGS]{}"],
    ["granite", ""],
    ["pythonic", ""],
    ["xlam", ""],
    ["phi4", ""],
    ["qwen3coder", ""],
    ["lfm2", ""],
    ["json", ""],
  ];
  const tools = [
    strict("keep", person),
    strict("drop", { type: "object", properties: {}, additionalProperties: false }),
  ];

  test.each(samples)("%s: what the grammar lets pass is read as calls (%s)", async (name, sample) => {
    const chat = { ...chatOf(server.engine), format: formatNamed(name), sample };
    const model = new ServedModel(["x"], server.engine, chat);
    for (const [many, seed] of [
      [true, 3],
      [false, 4],
    ] as const) {
      const choice = { tools, tool_choice: "required" as const, parallel_tool_calls: many };
      const { read, stop } = await model.answer(
        await model.converse([{ role: "user", content: "?" }], toolsOf(tools)),
        {
          sampling: { seed, temperature: 1 },
          maxTokens: 800,
          stopTexts: [],
          likeliest: undefined,
          grammar: formOf(choice, chat)?.grammar,
          signal: new AbortController().signal,
          onText: undefined,
        },
      );
      if (!many) expect([stop, read.calls.length]).toEqual(["stop", 1]);
      // A turn of many calls may be cut in the middle of one.
      const whole = stop === "stop" ? read.calls : read.calls.slice(0, -1);
      if (stop === "stop") expect(read.said).toBe("");
      expect(whole.length).toBeGreaterThan(0);
      for (const written of whole) {
        if (written.kind !== "call") throw new Error(written.reason);
        if (written.call.name === "keep") expectPerson(written.call.arguments);
        else expect(written.call).toMatchObject({ name: "drop", arguments: {} });
      }
    }
    model.close();
  });
});

describe("thoughts", () => {
  const marks = { open: "<think>", close: "</think>", ending: "\n</think>\n\n" };
  const served = (more: object) => {
    const { engine } = server;
    return new ServedModel(["thinker"], engine, { ...chatOf(engine), marks, ...more });
  };
  const rules = 'root ::= [ \\n\\t]{0,4} "[" [0-9]{3} "]"';
  const answer = async (model: ServedModel, opened: boolean, maxTokens: number) =>
    model.answer(await model.converse([{ role: "user", content: "Think." }], []), {
      sampling: { seed: 1, temperature: 2 },
      maxTokens,
      stopTexts: [],
      likeliest: undefined,
      grammar: { rules, thoughts: { open: marks.open, close: marks.close, opened } },
      signal: new AbortController().signal,
      onText: undefined,
    });

  test("are free where the prompt has opened them, and the form begins when they end", async () => {
    const model = served({ opened: true, maxThinkingTokens: 20 });
    const { read, stop } = await answer(model, true, 60);
    expect(stop).toBe("stop");
    expect(read.thoughts.length).toBeGreaterThan(0);
    expect(read.said).toMatch(/^\[\d{3}\]$/);
    model.close();
  });

  test("that the model does not begin are not waited for; a limit of thoughts does not disturb the form", async () => {
    const model = served({ opened: false, maxThinkingTokens: 3 });
    const { read, stop } = await answer(model, false, 60);
    expect(stop).toBe("stop");
    expect(read).toMatchObject({ thoughts: "", said: expect.stringMatching(/^\[\d{3}\]$/) });
    model.close();
  });
});

describe("schemas that are not wholly enforced", () => {
  const object = (properties: object, more: object = {}) => ({
    type: "object",
    properties,
    required: Object.keys(properties),
    ...more,
  });
  const odd = object({
    n: { type: "integer", minimum: 3, maximum: 5 },
    l: { type: "array", uniqueItems: true, maxItems: 2 },
  });
  const left = "at properties.l: 'uniqueItems' is not enforced: a grammar does not compare items";

  test("are answered in the form that is left, and the answer says what is missing", async () => {
    for (const withStrict of [true, false]) {
      const body = { ...wild, response_format: formatOf(odd, withStrict), seed: 3, n: 2 };
      const { choices, hone } = await ask(client, body);
      expect(hone.not_enforced).toEqual([`response_format ${left}`]);
      for (const { message } of choices) expect([3, 4, 5]).toContain(JSON.parse(message.content ?? "").n);
    }
    const whole = await ask(client, { ...wild, response_format: formatOf(person) });
    expect(whole.hone).not.toHaveProperty("not_enforced");
  });

  test("in a strict tool too, and once in a stream; in one that is not strict the schema is only shown", async () => {
    const tools = [tool("a"), strict("b", odd)];
    const choice = { type: "function" as const, function: { name: "b" } };
    const body = { ...wild, tools, tool_choice: choice, seed: 1, stream: true, model: "tiny" } as const;
    const told: unknown[] = [];
    for await (const part of await client.chat.completions.create(body)) {
      told.push((part as unknown as { hone: { not_enforced?: unknown } }).hone.not_enforced);
    }
    expect(told.filter((one) => one !== undefined)).toEqual([[`function 'b' ${left}`]]);
    const loose = { ...wild, tools: [tool("b", odd)], tool_choice: "required" as const, max_tokens: 1 };
    expect((await ask(client, loose)).hone).not.toHaveProperty("not_enforced");
  });

  test("are told to the server's log, each thing once", async () => {
    const notes: string[] = [];
    server.model.onNote = (text) => notes.push(text);
    const schema = object({ other: { type: "array", uniqueItems: true } });
    for (let turn = 0; turn < 2; turn++)
      await ask(client, { ...wild, response_format: formatOf(schema), max_tokens: 1 });
    expect(notes).toEqual([
      "response_format at properties.other: 'uniqueItems' is not enforced: a grammar does not compare items",
    ]);
  });
});

describe("what is no form is refused with its place", () => {
  const refusal = async (body: object): Promise<APIError> => {
    const error = await ask(client, { messages, max_tokens: 1, ...body }).catch((reason: unknown) => reason);
    if (error instanceof APIError) return error;
    throw new Error("it was not refused");
  };
  const bad = { type: "object", properties: { a: { $ref: "#/%" } } };

  test("a schema that is none, of an answer or of a strict tool", async () => {
    const answer = await refusal({ response_format: formatOf(bad) });
    expect([answer.status, answer.param, answer.code]).toEqual([400, "response_format", "invalid_json_schema"]);
    expect(answer.message).toContain("at properties.a: '$ref'");
    const tools = [tool("a"), strict("b", { type: "object", properties: { a: { type: "text" } } })];
    const called = await refusal({ tools });
    expect([called.status, called.param]).toEqual([400, "tools.1.function.parameters"]);
    expect(called.message).toMatch(/'b'.*properties\.a.*'type'/);
  });

  test("a schema that is too large or too deep", async () => {
    const large = { type: "object", properties: { a: { enum: Array.from({ length: 1e5 }, (_, at) => `v${at}`) } } };
    expect((await refusal({ response_format: formatOf(large) })).status).toBe(400);
    expect((await refusal({ tools: [tool("a", large)] })).status).toBe(400);
    // More levels than JSON.stringify writes.
    const deep = `${'{"properties":{"a":'.repeat(5000)}{}${"}}".repeat(5000)}`;
    const format = `{"type":"json_schema","json_schema":{"name":"x","schema":${deep}}}`;
    for (const field of [
      `"response_format":${format}`,
      `"tools":[{"type":"function","function":{"name":"a","parameters":${deep}}}]`,
      `"metadata":${deep}`,
    ]) {
      const body = `{"model":"tiny","messages":[{"role":"user","content":"Hi"}],${field}}`;
      expect((await fetch(`${server.url}/chat/completions`, { method: "POST", body })).status).toBe(400);
    }
  });

  test("a choice of tools that are not there", async () => {
    const named = { type: "function", function: { name: "other" } };
    for (const body of [{ tools: [tool("a")], tool_choice: named }, { tool_choice: "required" }]) {
      const error = await refusal(body);
      expect([error.status, error.param]).toEqual([400, "tool_choice"]);
    }
  });
});

test("where nothing is enforced, what calls lack of the form that was asked for is said", () => {
  const tools = [strict("keep", person), tool("look")];
  const named = { type: "function" as const, function: { name: "look" } };
  const asked = { tools, tool_choice: named, parallel_tool_calls: false };
  expect(demandsOf(asked)).toEqual(["tool_choice", "parallel_tool_calls", "strict of the function 'keep'"]);
  const call = (name: string, args: object) =>
    ({ kind: "call", call: { name, arguments: args as Record<string, unknown> } }) as const;
  const malformed = { kind: "malformed", text: "", reason: "the tool call is not valid JSON" } as const;
  const whole = { name: "a", age: 1, kind: "cat", tags: [null] };
  const problem = callFormOf(asked);
  expect(problem?.([])).toBe("there is no call, and tool_choice demands one");
  expect(problem?.([call("look", {}), call("look", {})])).toBe("there are 2 calls, and parallel_tool_calls is false");
  expect(problem?.([call("keep", whole)])).toBe("the call is of keep, and tool_choice demands look");
  expect(problem?.([malformed])).toBe(malformed.reason);
  expect(problem?.([call("look", { any: 1 })])).toBeUndefined();
  const strictly = callFormOf({ tools });
  expect(strictly?.([])).toBeUndefined();
  expect(strictly?.([call("keep", whole), call("look", {})])).toBeUndefined();
  expect(strictly?.([call("keep", { ...whole, age: "1" })])).toMatch(/^keep: age must be integer/);
  expect(callFormOf({ tools: [tool("look")] })).toBeUndefined();
});
