/** Logs: spans that the AI SDK itself writes, exports as Langfuse's, OpenAI's files; what is masked, joined, held out and counted. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generateText, jsonSchema, stepCountIs, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { describe, expect, it } from "vitest";
import { importLogs } from "../../src/scenarios/import.js";
import { MASKED, Mask } from "../../src/scenarios/logs/mask.js";
import { readLogs } from "../../src/scenarios/logs/read.js";
import { sidesOf } from "../../src/scenarios/pieces.js";

const folderOf = () => mkdtempSync(join(tmpdir(), "hone-import-"));

function write(name: string, records: readonly unknown[]): string {
  const file = join(folderOf(), name);
  writeFileSync(file, records.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join("\n"));
  return file;
}

const rowsOf = (file: string) =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));

const unset = { mask: undefined, maskWords: undefined, testShare: undefined, seed: 1 };

/** A tracer as OpenTelemetry's: keeps what is set on its spans. */
function tracerOf(spans: Record<string, unknown>[]) {
  let at = 0;
  // biome-ignore lint/suspicious/noExplicitAny: the SDK calls it in four ways.
  const startActiveSpan = (name: string, options: any, ...more: any[]) => {
    const attributes: Record<string, unknown> = { ...options.attributes };
    const span = {
      spanContext: () => ({ traceId: "t1", spanId: String(at), traceFlags: 1 }),
      setAttribute: (key: string, value: unknown) => void Object.assign(attributes, { [key]: value }),
      setAttributes: (given: object) => void Object.assign(attributes, given),
      setStatus: () => undefined,
      addEvent: () => undefined,
      recordException: () => undefined,
      isRecording: () => true,
      updateName: () => undefined,
      end: () => undefined,
    };
    spans.push({ name, traceId: "t1", id: String(at++), timestamp: at, attributes });
    return (more.at(-1) as (given: object) => unknown)(span);
  };
  return { startActiveSpan, startSpan: () => undefined };
}

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } } as never;

it("the AI SDK's own spans: the steps of an agent are one conversation with its tools, whether as plain spans or in OTLP's JSON", async () => {
  const spans: Record<string, unknown>[] = [];
  let step = 0;
  const model = new MockLanguageModelV3({
    modelId: "gpt-mock",
    doGenerate: async () =>
      (step++ === 0
        ? {
            finishReason: { unified: "tool-calls", raw: undefined },
            usage,
            warnings: [],
            content: [{ type: "tool-call", toolCallId: "c1", toolName: "weather", input: '{"city":"Oslo"}' }],
          }
        : {
            finishReason: { unified: "stop", raw: undefined },
            usage,
            warnings: [],
            content: [{ type: "text", text: "It is 3 degrees." }],
          }) as never,
  });
  await generateText({
    model,
    system: "Be short.",
    prompt: "How warm is it in Oslo?",
    tools: {
      weather: tool({
        description: "Tells the weather.",
        inputSchema: jsonSchema<{ city: string }>({
          type: "object",
          properties: { city: { type: "string" } },
          required: ["city"],
        }),
        execute: async ({ city }) => ({ city, degrees: 3 }),
      }),
    },
    stopWhen: stepCountIs(3),
    experimental_telemetry: { isEnabled: true, tracer: tracerOf(spans) as never },
  });
  const value = (one: unknown): object =>
    Array.isArray(one) ? { arrayValue: { values: one.map(value) } } : { stringValue: String(one) };
  const otlp = spans.map(({ name, traceId, id, timestamp, attributes }) => ({
    name,
    traceId,
    spanId: id,
    startTimeUnixNano: String(timestamp),
    attributes: Object.entries(attributes as object).map(([key, one]) => ({ key, value: value(one) })),
  }));
  for (const records of [spans, [{ resourceSpans: [{ scopeSpans: [{ spans: otlp }] }] }]]) {
    const { conversations, joined, unused } = await readLogs([write("spans.jsonl", records)]);
    expect({ joined, unused }).toEqual({ joined: 1, unused: { no_model_call: 2 } });
    expect(conversations).toHaveLength(1);
    expect(conversations[0]?.messages).toEqual([
      { role: "system", content: "Be short." },
      { role: "user", content: "How warm is it in Oslo?" },
      { role: "assistant", content: "", tool_calls: [{ name: "weather", arguments: { city: "Oslo" } }] },
      { role: "tool", name: "weather", content: '{"city":"Oslo","degrees":3}' },
      { role: "assistant", content: "It is 3 degrees." },
    ]);
    expect(conversations[0]?.tools).toEqual([
      {
        type: "function",
        function: {
          name: "weather",
          description: "Tells the weather.",
          parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
        },
      },
    ]);
    expect(conversations[0]?.model).toBe("gpt-mock");
  }
});

it("spans of OpenTelemetry's conventions for GenAI", async () => {
  const span = {
    context: { trace_id: "a", span_id: "b" },
    start_time: "2026-01-01T00:00:00Z",
    attributes: {
      "gen_ai.system_instructions": '[{"type":"text","content":"Be short."}]',
      "gen_ai.input.messages": JSON.stringify([
        { role: "user", parts: [{ type: "text", content: "Weather in Paris?" }] },
        { role: "assistant", parts: [{ type: "tool_call", id: "c", name: "weather", arguments: { city: "Paris" } }] },
        { role: "tool", parts: [{ type: "tool_call_response", id: "c", response: "rainy" }] },
      ]),
      "gen_ai.output.messages":
        '[{"role":"assistant","parts":[{"type":"reasoning","content":"hm"},{"type":"text","content":"Rain."}],"finish_reason":"stop"}]',
    },
  };
  const failed = { ...span, context: { trace_id: "c", span_id: "d" }, status: { code: 2 } };
  const { conversations, unused } = await readLogs([write("spans.jsonl", [span, failed])]);
  expect(conversations.map(({ messages }) => messages)).toEqual([
    [
      { role: "system", content: "Be short." },
      { role: "user", content: "Weather in Paris?" },
      { role: "assistant", content: "", tool_calls: [{ name: "weather", arguments: { city: "Paris" } }] },
      { role: "tool", name: "weather", content: "rainy" },
      { role: "assistant", content: "Rain." },
    ],
  ]);
  expect(unused).toEqual({ no_response: 1 });
});

it("Langfuse's observations, in the names of its API and of its exports, alone or inside of their trace", async () => {
  const asked = [{ role: "user", content: "2 + 2?" }];
  const call = {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "x", type: "function", function: { name: "add", arguments: '{"a":2,"b":2}' } }],
  };
  const tools = [{ type: "function", function: { name: "add", parameters: { type: "object" } } }];
  const first = {
    id: "1",
    traceId: "t",
    type: "GENERATION",
    startTime: "2026-01-01T00:00:00Z",
    input: { messages: asked, tools },
    output: call,
    model: "m",
  };
  const second = {
    id: "2",
    trace_id: "t",
    type: "GENERATION",
    start_time: "2026-01-01T00:00:01Z",
    provided_model_name: "m",
    session_id: "s",
    input: JSON.stringify({ messages: [...asked, call, { role: "tool", tool_call_id: "x", content: "4" }], tools }),
    output: JSON.stringify({ role: "assistant", content: "4" }),
  };
  const others = [
    { id: "3", traceId: "t", type: "SPAN", input: "x", output: "y" },
    { id: "4", traceId: "u", type: "GENERATION", level: "ERROR", input: asked, output: null },
    { id: "5", traceId: "v", type: "GENERATION", input: "Say hi.", output: "hi" },
  ];
  const inside = {
    id: "w",
    name: "agent",
    input: "?",
    output: "!",
    sessionId: "s",
    observations: [
      {
        id: "6",
        type: "GENERATION",
        input: [{ role: "user", content: "3 + 3?" }],
        output: { role: "assistant", content: "6" },
      },
    ],
  };
  const { conversations, joined, unused } = await readLogs([
    write("langfuse.jsonl", [second, first, ...others, inside]),
  ]);
  expect({ joined, unused }).toEqual({ joined: 1, unused: { no_model_call: 1, no_response: 1 } });
  expect(conversations.map(({ messages }) => messages.at(-1)?.content)).toEqual(["4", "hi", "6"]);
  expect(conversations[0]?.messages).toHaveLength(4);
  expect(conversations[0]?.tools.map((one) => one.function.name)).toEqual(["add"]);
  expect(conversations[2]?.session).toBe("s");
});

it("answers in JSON and the AI SDK's calls are what the model wrote, in Langfuse's observations and in spans", async () => {
  const answers = [
    { answer: 42, unit: "km" },
    '{"answer": 42}',
    ["Oslo", "Bergen"],
    [{ toolCallId: "x", toolName: "add", input: '{"a":2}' }],
    { choices: [] },
    { question: "Where?", choices: ["Oslo", "Bergen"] },
    { name: "Ann", role: "manager" },
  ];
  const observations = answers.map((output, i) => ({ id: `${i}`, traceId: `t${i}`, input: `Question ${i}?`, output }));
  const attributes = {
    "ai.prompt.messages": '[{"role":"user","content":[{"type":"text","text":"Where?"}]}]',
    "ai.response.object": '{"city":"Oslo"}',
  };
  const spans = [{ traceId: "s", name: "ai.generateObject.doGenerate", attributes }];
  const { conversations, unused } = await readLogs([write("logs.jsonl", [...observations, ...spans])]);
  expect(unused).toEqual({ no_response: 1 });
  expect(conversations.map(({ messages }) => messages.at(-1))).toEqual([
    { role: "assistant", content: '{"answer":42,"unit":"km"}' },
    { role: "assistant", content: '{"answer": 42}' },
    { role: "assistant", content: '["Oslo","Bergen"]' },
    { role: "assistant", content: "", tool_calls: [{ name: "add", arguments: { a: 2 } }] },
    { role: "assistant", content: '{"question":"Where?","choices":["Oslo","Bergen"]}' },
    { role: "assistant", content: '{"name":"Ann","role":"manager"}' },
    { role: "assistant", content: '{"city":"Oslo"}' },
  ]);
});

it("a byte-order mark is none of a file's value, and a line of another encoding is counted, not read wrongly", async () => {
  const file = join(folderOf(), "log.json");
  const chat = (question: string) => ({
    messages: [
      { role: "user", content: question },
      { role: "assistant", content: "Yes." },
    ],
  });
  const questionsIn = async (content: Buffer) => {
    writeFileSync(file, content);
    const { conversations, unused } = await readLogs([file]);
    return { questions: conversations.map(({ messages }) => messages[0]?.content), unused };
  };
  const [one, other] = ["a café\u2028?", "naïve?"].map((question) => JSON.stringify(chat(question)));
  const questions = ["a café\u2028?", "naïve?"];
  expect(await questionsIn(Buffer.from(`\uFEFF[${one},\n${other}]`))).toEqual({ questions, unused: {} });
  expect(await questionsIn(Buffer.from(`\uFEFF${one}\r\n${other}`))).toEqual({ questions, unused: {} });
  const mixed = Buffer.concat([Buffer.from(`${one}\n`), Buffer.from(`${other}\n`, "latin1")]);
  expect(await questionsIn(mixed)).toEqual({ questions: ["a café\u2028?"], unused: { not_json: 1 } });
});

describe("OpenAI's files", () => {
  const row = (question: string, answer: string) => ({
    messages: [
      { role: "user", content: question },
      { role: "assistant", content: answer },
    ],
  });

  it("give scenarios with answers and trajectories; test questions are not to be imitated, whatever their spelling", async () => {
    const rows = Array.from({ length: 40 }, (_, i) => [
      row(`How long is road ${i}?`, `${i} miles`),
      row(`how long is road ${i}`, `about ${i} miles`),
    ]).flat();
    const file = write("tune.jsonl", [
      ...rows,
      row("How long is road 1?", "1 miles"),
      "{",
      '{"prompt":"old"}',
      { messages: [{ role: "user", content: [{ type: "image_url" }] }] },
    ]);
    const out = folderOf();
    const summary = await importLogs({ ...unset, logs: [file], out });
    expect(summary).toMatchObject({
      records: 84,
      conversations: 80,
      unused: { repeated: 1, not_json: 1, unknown_form: 1, not_text: 1 },
    });
    const scenarios = rowsOf(summary.scenarios_file);
    expect(scenarios).toHaveLength(80);
    const trajectories = rowsOf(summary.trajectories_file);
    expect(trajectories.length + summary.held_out).toBe(80);
    const plain = (text: string) => text.toLowerCase().replace("?", "");
    const tests = new Set(scenarios.filter(({ split }) => split === "test").map(({ question }) => plain(question)));
    expect(tests.size).toBeGreaterThan(2);
    const trains = scenarios.filter(({ split }) => split === "train").map(({ question }) => plain(question));
    expect(
      [...trains, ...trajectories.map(({ scenario }) => plain(scenario.question))].filter((one) => tests.has(one)),
    ).toEqual([]);
    expect(trajectories[0]).toMatchObject({
      task: "imported",
      tools: [],
      end: "answered",
      turns: 1,
      reward: { success: true },
    });
  });

  it("requests with their responses were played by a model, nobody says how well", async () => {
    const file = write("log.jsonl", [
      {
        request: { model: "a", messages: [{ role: "user", content: "Hi?" }] },
        response: { model: "a-1", choices: [{ message: { role: "assistant", content: "Ho." } }] },
      },
    ]);
    const summary = await importLogs({ ...unset, logs: [file], out: folderOf() });
    expect(rowsOf(summary.trajectories_file)[0]).toMatchObject({
      player: { model: "a-1" },
      reward: { success: false, reward: 0 },
    });
  });

  it.each([
    [
      "a result without its call",
      [
        { role: "user", content: "?" },
        { role: "tool", tool_call_id: "z", content: "1" },
        { role: "assistant", content: "1" },
      ],
      { unmatched_result: 1 },
    ],
    [
      "arguments that are no object",
      [
        { role: "user", content: "?" },
        { role: "assistant", tool_calls: [{ function: { name: "f", arguments: "[1]" } }] },
      ],
      { bad_tool_call: 1 },
    ],
    ["an unknown role", [{ role: "critic", content: "?" }], { bad_message: 1 }],
    [
      "no question",
      [
        { role: "system", content: "x" },
        { role: "assistant", content: "y" },
      ],
      { no_question: 1 },
    ],
    ["no answer", [{ role: "user", content: "x" }], { no_response: 1 }],
    [
      "a turn that is not to be learnt from",
      [
        { role: "user", content: "x" },
        { role: "assistant", content: "wrong", weight: 0 },
        { role: "user", content: "really?" },
        { role: "assistant", content: "right", weight: 1 },
      ],
      { excluded_turn: 1 },
    ],
  ])("%s is counted", async (_, messages, unused) => {
    const file = write("bad.jsonl", [{ messages }]);
    expect((await readLogs([file])).unused).toEqual(unused);
    await expect(importLogs({ ...unset, logs: [file], out: folderOf() })).rejects.toThrow(
      /no conversation .* can be used: \w+ 1$/,
    );
  });

  it("several questions and silent ends give trajectories, and no scenario", async () => {
    const turns = [
      { role: "user", content: "A?" },
      { role: "assistant", content: "a" },
      { role: "user", content: "B?" },
      { role: "assistant", content: "b" },
    ];
    const silent = [
      { role: "user", content: "C?" },
      { role: "assistant", tool_calls: [{ id: "1", function: { name: "done", arguments: "{}" } }] },
    ];
    const summary = await importLogs({
      ...unset,
      testShare: 0.001,
      logs: [write("x.jsonl", [{ messages: turns }, { messages: silent }])],
      out: folderOf(),
    });
    expect(summary).toMatchObject({ train: 0, test: 0, without_scenario: { several_questions: 1, no_answer: 1 } });
  });
});

describe("masking", () => {
  it.each([
    ["write to Ann.Lee@x-y.example.org, or ann.lee@X-Y.example.org", "write to [email 1], or [email 1]"],
    ["call +47 22 12 34 56 or (020) 7946-0958 or 555-867-5309", "call [phone 1] or [phone 2] or [phone 3]"],
    ["card 4111 1111 1111 1111, not 4111 1111 1111 1112", "card [card 1], not 4111 1111 1111 1112"],
    ["DE89 3704 0044 0532 0130 00 is an account", "[iban 1] is an account"],
    ["from 192.168.0.1 and 2001:db8::8a2e:370:7334", "from [ip 1] and [ip 2]"],
    ["key sk-abcdefghijklmnopqrstuv", "key [key 1]"],
    ["a@b, @x.org, a@@b.org, x@y.org@z.org", "a@b, @x.org, a@@b.org, [email 1]@z.org"],
    ["ａｎｎ＠ｘ．ｏｒｇ, ann%40x.org, ann%2540x%2Eorg; 100%25", "[email 1], [email 1], [email 1]; 100%25"],
    ["an\u200bn@x.org, 𝐚𝐧𝐧@x.org", "[email 1], [email 2]"],
    [
      "pay 4111\u00a01111\u20111111\u202f1111 12/27, 1 4111-1111-1111-1111 or ４１１１１１１１１１１１１１１１",
      "pay [card 1] 12/27, 1 [card 1] or [card 1]",
    ],
    ["卡号4111111111111111，id 1111111111111117", "卡号[card 1]，id 1111111111111117"],
    [
      "DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000; de89370400440532013000 (de89370400440532013001)",
      "[iban 1]; [iban 1] (de89370400440532013001)",
    ],
    ["+47\u00a022\u00a012\u00a034\u00a056 is +4722123456", "[phone 1] is [phone 1]"],
    [
      "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln-_c2ln, at AIzaSyA0123456789abcdefghijklmnopqrstu and ya29.a0AfB_0123456789abcdef",
      "[key 1], at [key 2] and [key 3]",
    ],
    [
      "-----BEGIN RSA PRIVATE KEY-----\nMIIB/+=\n-----END RSA PRIVATE KEY-----\nthen -----BEGIN PRIVATE KEY-----\nMIIC",
      "[key 1]\nthen [key 2]",
    ],
    ["skateboarding-competitions, hf-spaces", "skateboarding-competitions, hf-spaces"],
    [
      "on 2001-05-10 at 12:30, 1,234,567 dollars, version 1.2.3, order 20260101",
      "on 2001-05-10 at 12:30, 1,234,567 dollars, version 1.2.3, order 20260101",
    ],
  ])("%s", (text, masked) => {
    expect(new Mask(MASKED).text(text)).toBe(masked);
  });

  it("names that are given, longest first, as whole words; the same everywhere, in arguments and results too", async () => {
    const messages = [
      { role: "user", content: "When did Ann  Lee mail bob@x.org?" },
      {
        role: "assistant",
        content: "",
        tool_calls: [{ id: "1", function: { name: "find", arguments: '{"who":["bob@x.org"],"limit":3}' } }],
      },
      { role: "tool", tool_call_id: "1", content: "Annual letter of ANN LEE to bob@x.org" },
      { role: "assistant", content: "Ann Lee did in May." },
    ];
    const summary = await importLogs({
      ...unset,
      mask: ["email"],
      maskWords: ["Ann", "Ann Lee"],
      logs: [write("x.jsonl", [{ messages }])],
      out: folderOf(),
    });
    expect(summary.masked).toEqual({ name: 1, email: 1 });
    const [trajectory] = rowsOf(summary.trajectories_file);
    expect(trajectory.messages.map(({ content, tool_calls: calls }: never) => [content, calls])).toEqual([
      ["When did [name 1] mail [email 1]?", undefined],
      ["", [{ name: "find", arguments: { who: ["[email 1]"], limit: 3 } }]],
      ["Annual letter of [name 1] to [email 1]", undefined],
      ["[name 1] did in May.", undefined],
    ]);
    expect(readFileSync(summary.trajectories_file, "utf8") + readFileSync(summary.scenarios_file, "utf8")).not.toMatch(
      /bob@|ann lee/i,
    );
  });

  it("tools, names of arguments and numbers too; what is not looked for is listed", async () => {
    const call = {
      name: "find",
      arguments: '{"bob@x.org": {"card": 4111111111111111, "n": 12}, "BOB@x.org": 13}',
    };
    const messages = [
      { role: "user", content: "Who?" },
      { role: "assistant", content: "", tool_calls: [{ id: "1", function: call }] },
      { role: "tool", tool_call_id: "1", content: "-" },
      { role: "assistant", content: "Bob." },
    ];
    const parameters = {
      type: "object",
      properties: { "bob@x.org": { type: "object", default: "4111 1111 1111 1111" } },
    };
    const tools = [{ type: "function", function: { name: "find", description: "As bob@x.org does.", parameters } }];
    const logs = [write("x.jsonl", [{ messages, tools }])];
    const summary = await importLogs({ ...unset, mask: ["all"], logs, out: folderOf() });
    expect(summary.masked).toEqual({ email: 1, card: 1 });
    expect(summary.not_masked).toContain("names (--mask-words)");
    const [trajectory] = rowsOf(summary.trajectories_file);
    expect(trajectory.messages[1].tool_calls[0].arguments).toEqual({
      "[email 1]": { card: "[card 1]", n: 12 },
      "[email 1]'": 13,
    });
    expect(trajectory.tools[0].function).toEqual({
      name: "find",
      description: "As [email 1] does.",
      parameters: { type: "object", properties: { "[email 1]": { type: "object", default: "[card 1]" } } },
    });
  });

  it.each([
    ["letters", "a"],
    ["signs of addresses", "a@"],
    ["signs of keys", "sk-"],
    ["beginnings of tokens", "eyJ-"],
    ["beginnings of keys", "-----BEGIN A-----"],
    ["digits", "4"],
    ["colons", "a:"],
    ["percent signs", "%25"],
  ])("long runs of %s take as long for each sign as short ones: with their square it would be minutes", (_, sign) => {
    const before = process.cpuUsage();
    new Mask(MASKED).text(sign.repeat(2_000_000 / sign.length));
    expect(process.cpuUsage(before).user).toBeLessThan(20e6);
  });

  it("ends when it is interrupted", async () => {
    const messages = [
      { role: "user", content: "Who?" },
      { role: "assistant", content: "a@b.org ".repeat(30_000) },
    ];
    const logs = [
      write(
        "x.jsonl",
        Array.from({ length: 3 }, () => ({ messages })),
      ),
    ];
    const signal = AbortSignal.abort(new Error("terminated"));
    await expect(importLogs({ ...unset, mask: ["all"], logs, out: folderOf() }, signal)).rejects.toThrow("terminated");
  });

  it("kinds that do not exist are refused", async () => {
    await expect(importLogs({ ...unset, mask: ["names"], logs: ["x"], out: folderOf() })).rejects.toThrow(
      "--mask names: give all, or some of email, phone, card, iban, ip, key",
    );
  });
});

it("one session is on one side, and so are sessions with a question in common", () => {
  const sides = sidesOf(
    Array.from({ length: 60 }, (_, i) => ({
      text: i === 1 ? "question 0" : `question ${i}`,
      entity: `session ${i >> 1}`,
    })),
    0.3,
    1,
  );
  for (let i = 0; i < 60; i += 2) expect(sides[i]?.split).toBe(sides[i + 1]?.split);
  expect(sides[0]?.entity).toBe(sides[1]?.entity);
});
