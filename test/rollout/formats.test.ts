import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatNamed, formatNames, formatOf, formats } from "../../src/chat/formats/formats.js";
import { hermes } from "../../src/chat/formats/hermes.js";
import { options } from "../../src/core/config/config.js";
import { vllmCases } from "./support/vllm-cases.js";
import { readAlike, writtenTexts } from "./support/written-calls.js";

const call = (value: unknown) =>
  `<tool_call>\n${typeof value === "string" ? value : JSON.stringify(value)}\n</tool_call>`;

describe("calls in the Hermes form", () => {
  it("reads several calls and the text around them", () => {
    const first = { name: "search_inbox", arguments: { keywords: ["a", "b"] } };
    const second = { name: "read_email", arguments: { message_id: "<1@x>" } };
    expect(hermes.read(`Let me look.\n${call(first)}\n${call(second)} done`, [])).toEqual({
      content: "Let me look.\n\n done",
      calls: [
        { kind: "call", call: first },
        { kind: "call", call: second },
      ],
    });
  });

  it("finds no call in plain text", () => {
    expect(hermes.read("The answer is 4.", [])).toEqual({ content: "The answer is 4.", calls: [] });
  });

  it.each([
    ["broken JSON", call('{"name": "x", "arguments": {'), /not valid JSON/],
    ["an array", call("[1]"), /not a JSON object/],
    ["no name", call({ arguments: {} }), /no "name"/],
    ["no arguments", call({ name: "x" }), /no "arguments"/],
    ["arguments that are a string", call({ name: "x", arguments: "{}" }), /no "arguments" object/],
    ["no closing tag", '<tool_call>\n{"name": "x", "arguments": {}}', /no <\/tool_call>/],
  ])("names what is wrong with %s and keeps the text", (_, text, reason) => {
    const turn = hermes.read(`hm ${text}`, []);
    expect(turn.calls).toHaveLength(1);
    expect(turn.calls[0]).toMatchObject({ kind: "malformed", reason: expect.stringMatching(reason) });
    expect(turn.content).toBe(`hm ${text}`);
  });
});

describe("every format", () => {
  it.each(formats)("$name reads the calls that it writes", ({ read, write }) => {
    const value = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.integer(),
      fc.constantFrom(
        "</tool_call>",
        "<tool_call>",
        "[TOOL_CALLS]",
        '"}; {"name": "x"',
        true,
        null,
        0.5,
        "[ARGS]",
        "<|tool_call|>",
        "</parameter>",
        "<|tool_call_end|>",
        "\n<parameter=of another>",
        "\n",
      ),
    );
    const args = fc.dictionary(
      fc.string({ minLength: 1 }).filter((key) => key !== "__proto__" && !/[>\n]/.test(key)),
      value,
    );
    const calls = fc.array(fc.record({ name: fc.constantFrom("add", "look_up"), arguments: args }), { minLength: 1 });
    const typeOf = (one: unknown) => (one === null ? "null" : typeof one);
    fc.assert(
      fc.property(calls, (unnumbered) => {
        // The schema of a tool says what is a number: one call each.
        const all = unnumbered.map((call, index) => ({ ...call, name: `${call.name}_${index}` }));
        const tools = all.map(({ name, arguments: given }) => {
          const properties = Object.entries(given).map(([key, one]) => [key, { type: typeOf(one) }]);
          return { name, parameters: { type: "object", properties: Object.fromEntries(properties) } };
        });
        const expected = { content: "", calls: all.map((call) => ({ kind: "call", call })) };
        expect(
          read(
            write(all, (json) => json),
            tools,
          ),
        ).toEqual(JSON.parse(JSON.stringify(expected)));
      }),
    );
  });

  it.each(formats)("$name is the format of the calls that it writes", ({ name, write }) => {
    // A template that writes bare JSON is Llama's, or one of its kind.
    expect(
      formatOf(write([{ name: "look", arguments: { at: 1 } }], String), { name: "look", parameters: {} })?.name,
    ).toBe(name === "json" ? "llama3" : name);
  });

  it.each(formats)("$name never throws, whatever a model writes, and keeps what is malformed", ({ read }) => {
    const marks = [
      "<tool_call>",
      "</tool_call>",
      "<|python_tag|>",
      "[TOOL_CALLS]",
      "[ARGS]",
      "[CALL_ID]",
      ";",
      "<|tool_call|>",
      "<function=x>",
      "<parameter=x>",
      "</parameter>",
      "</function>",
      "<|tool_call_start|>",
      "<|tool_call_end|>",
    ];
    const piece = fc.oneof(
      fc.constantFrom(...marks, "{", "}", "[", "]", '"', "\\", '"name"', '"arguments"', ":", '"x"', "\n", "\u0000"),
      fc.constantFrom('{"name":"x"', '[{"name": "x"', '{"arguments":', "```", "```json\n"),
      fc.string(),
      fc.json().map((json) => call(json)),
      fc.constantFrom('{"name": "x", "parameters": {}}', '{"name": "x", "arguments": {"a": "}"}}'),
    );
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const { calls, content } = read(pieces.join(""), [{ name: "x", parameters: {} }]);
        expect(typeof content).toBe("string");
        for (const written of calls) {
          expect(["call", "malformed"]).toContain(written.kind);
          if (written.kind === "malformed") expect(content).not.toBe("");
        }
      }),
      { seed: 7, numRuns: 2000 },
    );
  });

  it.each(writtenTexts)("reads as is written down: $format, $about", ({ format, text, calls, errors, content }) => {
    const read = formatNamed(format.split(" ")[0] as string).read(text, []);
    expect(read.content).toBe(content);
    expect(read.calls.flatMap((one) => (one.kind === "call" ? [one.call] : []))).toEqual(calls);
    expect(read.calls.flatMap((one) => (one.kind === "malformed" ? [one.reason] : []))).toEqual(errors);
  });

  it.each(writtenTexts)("reads as vLLM's parser does, or it is written why not: $format, $about", (one) => {
    expect(one.why === undefined).toBe(readAlike(one));
  });

  it.each(vllmCases)(
    "reads $format as vLLM's tests do, or says why not: $about",
    ({ format, text, tools = [], vllm, content, hone }) => {
      const read = formatNamed(format).read(text, tools);
      const calls = read.calls.flatMap((one) => (one.kind === "call" ? [[one.call.name, one.call.arguments]] : []));
      const errors = read.calls.flatMap((one) => (one.kind === "malformed" ? [one.reason] : []));
      if (!hone) {
        expect({ calls, errors, content: read.content }).toEqual({ calls: vllm, errors: [], content: content ?? "" });
        return;
      }
      const { calls: ours = [], errors: wrong = [], content: said = text, why } = hone;
      expect({ calls, errors, content: read.content }).toEqual({ calls: ours, errors: wrong, content: said });
      expect(why).not.toBe("");
    },
  );

  it.each([
    ["xlam", '<tool_call>[{"name": "x", "arguments": {}}]', "no </tool_call> follows the list of tool calls"],
    ["xlam", '```json\n[{"name": "x", "arguments": {}}]', "no ``` follows the list of tool calls"],
    ["xlam", '[{"name": "x"', "the list of tool calls does not end"],
    ["xlam", "[{oops}]", "the list of tool calls is not valid JSON"],
    ["xlam", "<tool_call>oops</tool_call>", "no JSON list of tool calls follows <tool_call>"],
    ["pythonic", "[f(a=1, a=2)]", "the argument a is given twice"],
    ["pythonic", "[f(a=g(1))]", "g begins no Python literal"],
    ["pythonic", "[f(a=true)]", "true begins no Python literal"],
    ["pythonic", "[f(1)]", "an argument has no name"],
    ["pythonic", "[f(a={1: 2})]", "a key of a dictionary is no text"],
    ["pythonic", "[f(a=007)]", "007 is no Python literal"],
    ["pythonic", "[f(a=1", "no , or ) follows an argument"],
    ["pythonic", "[f(**[1])]", "no JSON object follows **"],
    ["pythonic", "<|python_start|>f()", "no list of calls follows <|python_start|>"],
    ["pythonic", `[f(a=${"[".repeat(100_000)}`, "the tool call is nested too deeply"],
    ["lfm2", "<|tool_call_start|>[f(a=1)]", "no <|tool_call_end|> follows the list of tool calls"],
    ["lfm2", "<|tool_call_start|>f(a=1)<|tool_call_end|>", "no list of calls follows <|tool_call_start|>"],
    ["lfm2", "<|tool_call_start|>[f(a='1]<|tool_call_end|>", "a text does not end"],
    ["granite", '<tool_call>{"name": "x"} <tool_call>', "no JSON list of tool calls follows <tool_call>"],
    ["qwen3coder", '<tool_call>{"name": "x"}</tool_call>', "no <function=NAME> follows <tool_call>"],
    ["qwen3coder", "<tool_call><function=x></function>", "the tool call has no </tool_call>"],
    ["qwen3coder", "<tool_call><function=x>\n1\n</function></tool_call>", "no </function> follows the parameters"],
    [
      "qwen3coder",
      "<tool_call><function=x><parameter=a>1</function></tool_call>",
      "the parameter a has no </parameter>",
    ],
    [
      "qwen3coder",
      `<tool_call><function=x><parameter=a>1</function></tool_call>${"<parameter=b>2</parameter></function>"}`,
      "the parameter a has no </parameter>",
    ],
  ])("%s says of %s what is wrong", (name, text, reason) => {
    const { content, calls } = formatNamed(name).read(text, []);
    expect(calls).toMatchObject([{ kind: "malformed", reason }]);
    expect(content).toBe(text);
  });

  it("pythonic reads Python's literals", () => {
    const text = String.raw`Wait. [f(a='\'\x41\u00e9\n\d', b=r"\n", c="""1
2""", d=-1.5e3, e=+2, from=False, g={"k": [None, True,],}, )]`;
    expect(formatNamed("pythonic").read(text, [])).toEqual({
      content: "Wait.",
      calls: [
        {
          kind: "call",
          call: {
            name: "f",
            arguments: { a: "'Aé\n\\d", b: "\\n", c: "1\n2", d: -1500, e: 2, from: false, g: { k: [null, true] } },
          },
        },
      ],
    });
  });

  it.each([
    ["pythonic", (call: string) => `Sure! [${call}]`, "Sure!"],
    ["lfm2", (call: string) => `Sure! <|tool_call_start|>[${call}]<|tool_call_end|>`, "Sure!"],
  ] as const)("%s reads calls by any of Python's names", (name, written, content) => {
    const { read, write } = formatNamed(name);
    const calls = [
      { name: "获取天气", arguments: { 城市: "北京", from: 1 } },
      { name: "größe.öffnen-neu", arguments: { ñandú_1: [true], 𝔘: null } },
    ];
    const text = write(calls, String);
    expect(text).not.toContain("**");
    expect(read(text, [])).toEqual({ content: "", calls: calls.map((call) => ({ kind: "call", call })) });
    expect(read(written("获取天气(城市='北京')"), [])).toEqual({
      content,
      calls: [{ kind: "call", call: { name: "获取天气", arguments: { 城市: "北京" } } }],
    });
    // Digits begin no name.
    expect(read(write([{ name: "f", arguments: { "1a": 1 } }], String), [])).toMatchObject({
      calls: [{ call: { arguments: { "1a": 1 } } }],
    });
  });

  it("qwen3coder gives values the types of the tool's schema", () => {
    const any = (...types: string[]) => ({ anyOf: types.map((type) => ({ type })) });
    const properties = {
      count: { $ref: "#/$defs/count" },
      when: any("string", "null"),
      level: { enum: [1, "2", null, true] },
      either: any("string", "integer"),
      other: any("integer", "string"),
      list: { type: ["array", "null"], items: {} },
      on: { type: "boolean" },
      free: {},
    };
    const tools = [{ name: "f", parameters: { type: "object", properties, $defs: { count: { type: "integer" } } } }];
    const typed = (key: string, text: string) => {
      const call = `<tool_call>\n<function=f>\n<parameter=${key}>\n${text}\n</parameter>\n</function>\n</tool_call>`;
      const { calls } = formatNamed("qwen3coder").read(call, tools);
      return calls.map((one) => (one.kind === "call" ? one.call.arguments[key] : one));
    };
    const cases: [key: string, text: string, value: unknown][] = [
      ["count", " 42 ", 42],
      ["count", "3.0", 3],
      ["count", "1234567890123456789", 1234567890123456789n],
      // What has not the type is a text, which the tool refuses.
      ["count", "3.5", "3.5"],
      ["count", "1e999", "1e999"],
      ["count", "None", null],
      ["when", "null", null],
      ["when", "  null?\n", "  null?\n"],
      ["level", "2", "2"],
      ["level", "1", 1],
      ["level", "None", null],
      ["level", "True", true],
      ["level", "3", 3],
      ["either", "42", "42"],
      ["other", "42", 42],
      ["other", "x", "x"],
      ["list", "['a', None, True]", ["a", null, true]],
      ["list", '["a", null]', ["a", null]],
      ["list", "[".repeat(100_000), "[".repeat(100_000)],
      ["on", "False", false],
      ["on", "yes", "yes"],
      ["free", "42", "42"],
      ["unknown", "42", "42"],
      ["toString", "42", "42"],
    ];
    for (const [key, text, value] of cases) expect([key, text, typed(key, text)]).toEqual([key, text, [value]]);
  });

  it.each([
    ["xlam", '```json\n[{"city": "Rome"}]\n```'],
    ["xlam", "[1, 2] and [see](x)"],
    ["pythonic", "See [1], [see](x) and the interval [f(a), f(b)]."],
    ["phi4", "import functools, then functools.reduce"],
    ["lfm2", "[f(a=1)] and [f()]"],
    ["granite", '[{"name": "x", "arguments": {}}]'],
    ["qwen3coder", "<function> and <parameter> are tags, a <tool and a function=x."],
  ])("%s takes this for text: %s", (name, text) => {
    expect(formatNamed(name).read(text, [])).toEqual({ content: text, calls: [] });
  });

  it("is a choice of --tool-format", () => {
    expect(options.toolFormat.accepts).toBe(`auto, ${formatNames()}`);
  });
});

describe("calls as bare JSON", () => {
  const tools = [
    { name: "add", parameters: {} },
    { name: "sub", parameters: {} },
  ];
  const add = '{"name": "add", "arguments": {"a": 1}}';
  const sub = '{"name": "sub", "arguments": {"b": {"c": ["}", "```"]}}}';
  const [added, subtracted] = [
    { name: "add", arguments: { a: 1 } },
    { name: "sub", arguments: { b: { c: ["}", "```"] } } },
  ];
  const read = (text: string) => formatNamed("json").read(text, tools);

  it.each<[text: string, calls: object[], content: string]>([
    [`Let me see. ${add} That is all.`, [added], "Let me see.  That is all."],
    [`json ${add}`, [added], "json"],
    [`${add}\n${sub}`, [added, subtracted], ""],
    [`${add}, ${sub}; ${add}`, [added, subtracted, added], ""],
    [`[${add}, ${sub}]`, [added, subtracted], ""],
    [`Now:\n\`\`\`json\n${add}\n\`\`\`\nDone.`, [added], "Now:\n\nDone."],
    [`\`\`\`\n[\n  ${add}\n]\n\`\`\``, [added], ""],
    [`\`\`\`python\n${add}\n${sub}\`\`\``, [added, subtracted], ""],
    [`\`\`\`json\n${add}\n\`\`\`\n\`\`\`json\n${sub}\n\`\`\``, [added, subtracted], ""],
    // Bare JSON is a form of its own, a fence that stays open text before it.
    [`\`\`\`json\n${add}`, [added], "```json"],
    [`\`\`\`json\n# look\n${add}\n\`\`\``, [added], "```json\n# look\n\n```"],
    ['{"name": "add", "parameters": {"a": 1}}', [added], ""],
    ['{"arguments": {"a": 1}, "name": "add"}', [added], ""],
    ['{"type": "function", "name": "add", "parameters": {"a": 1}}', [added], ""],
    [String.raw`{"name": "add", "arguments": "{\"a\": 1}"}`, [added], ""],
    // In a list with one call the others are meant as calls.
    [`[{"name": "look", "arguments": {}}, ${add}]`, [{ name: "look", arguments: {} }, added], ""],
    [`In JSON a { opens an object. ${add}`, [added], "In JSON a { opens an object."],
    [`[ "a quote, and ${add}`, [added], '[ "a quote, and'],
  ])("are read: %s", (text, calls, content) => {
    expect(read(text)).toEqual({ content, calls: calls.map((call) => ({ kind: "call", call })) });
  });

  it.each([
    '{"name": "Bob", "age": 3}',
    '{"name": "look", "arguments": {}}',
    '```json\n{"answer": [1, 2]}\n```',
    `{"answer": ${add}}`,
    `{"tool_calls": [${add}]}`,
    '[{"type": "function", "function": {"name": "add", "parameters": {}}}]',
    'add, and "name": "add"',
    "[]{}[[{}]]",
  ])("are no calls, and text: %s", (text) => {
    expect(read(text)).toEqual({ content: text, calls: [] });
  });

  it.each([
    ['{"name": "add", "arguments": {a: 1}}', "the tool call is not valid JSON"],
    ['{"name": "add", "arguments": {"a": "x\ny"}}', "the tool call is not valid JSON"],
    ["{'name': 'add', 'arguments': {'a': 1}}", "the tool call is not valid JSON"],
    ['{name: "add", arguments: {}}', "the tool call is not valid JSON"],
    ['{"name": "add", "arguments": {"a": 1', "the tool call's JSON does not end"],
    [`[${add},]`, "the list of tool calls is not valid JSON"],
    [`[${add}`, "the list of tool calls does not end"],
    [`${add}}`, "the tool call is followed by a } too many"],
    [`{${add}}`, "the JSON around the tool call is not valid"],
    [`{"function": ${add}`, "the JSON around the tool call is not valid"],
    ['{"name": "add"}', 'the tool call has no "arguments" object'],
    ['{"name": "add", "arguments": "a = 1"}', 'the tool call has no "arguments" object'],
    ['{"name": "add", "arguments": null}', 'the tool call has no "arguments" object'],
    ['{"name": "add", "arguments": {}, "parameters": {}}', 'the tool call has both "arguments" and "parameters"'],
  ])("are not repaired: %s", (text, reason) => {
    const { content, calls } = read(text);
    expect(calls).toMatchObject([{ kind: "malformed", reason }]);
    expect(content).toBe(text);
  });

  it("run where others of the turn are malformed, which stay in the text", () => {
    expect(read(`${add}\n{"name": "sub", "arg`)).toMatchObject({
      content: '{"name": "sub", "arg',
      calls: [{ kind: "call", call: added }, { kind: "malformed" }],
    });
  });

  it("are none without tools", () => {
    expect(formatNamed("json").read(` ${add}`, [])).toEqual({ content: add, calls: [] });
  });

  it("begin with marks that serve knows, under which no other JSON stands", () => {
    const { marks, marksOf } = formatNamed("json");
    const own = [...marks.anywhere, ...(marksOf?.("add") ?? [])].map((mark) => mark.replaceAll(" ", ""));
    for (const text of [
      add,
      `[${add}]`,
      `\`\`\`json\n${add}\`\`\``,
      "{'name': 'add'}",
      '{"arguments": {}, "name": "add"}',
    ]) {
      const bare = text.replace(/\s/g, "");
      expect(own.some((mark) => bare.startsWith(mark))).toBe(true);
    }
    expect(own.some((mark) => '{"name":"addition"}'.startsWith(mark))).toBe(false);
  });
});

describe("integers beyond 2^53 - 1", () => {
  const written: [format: string, text: string][] = [
    ["hermes", call('{"name": "find", "arguments": {"order": 1234567890123456789}}')],
    ["llama3", '{"name": "find", "parameters": {"order": 1234567890123456789}}'],
    ["mistral", '[TOOL_CALLS] [{"name": "find", "arguments": {"order": 1234567890123456789}}]'],
    ["granite", '<|tool_call|>[{"name": "find", "arguments": {"order": 1234567890123456789}}]'],
    ["pythonic", "[find(order=1234567890123456789)]"],
    ["lfm2", "<|tool_call_start|>[find(order=1234567890123456789)]<|tool_call_end|>"],
    ["pythonic", '[find(**{"order": 1234567890123456789})]'],
    ["xlam", '[{"name": "find", "arguments": {"order": 1234567890123456789}}]'],
    ["phi4", 'functools[{"name": "find", "arguments": {"order": 1234567890123456789}}]'],
    ["mistral", '[TOOL_CALLS]find[ARGS]{"order": 1234567890123456789}'],
    ["json", '{"name": "find", "arguments": {"order": 1234567890123456789}}'],
    ["json", String.raw`{"name": "find", "arguments": "{\"order\": 1234567890123456789}"}`],
  ];
  it.each(written)("are read as they were written: %s", (name, text) => {
    expect(formatNamed(name).read(text, [{ name: "find", parameters: {} }]).calls).toEqual([
      { kind: "call", call: { name: "find", arguments: { order: 1234567890123456789n } } },
    ]);
  });
});
