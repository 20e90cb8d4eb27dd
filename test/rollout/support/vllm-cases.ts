/**
 * Texts of vLLM's own tests of its parsers (vllm-project/vllm, tests/tool_parsers), with what those tests expect without
 * streaming. vLLM drops text behind a call and white space around it; where nothing else differs, both read the text alike.
 */
import type { CallableTool } from "../../../src/core/rollout/conversation.js";

export interface VllmCase {
  readonly format: string;
  readonly about: string;
  /** Those of vLLM's test, where its parser is given them. */
  readonly tools?: readonly CallableTool[];
  readonly text: string;
  /** The calls that vLLM's test expects; undefined where it only expects that nothing is thrown. */
  readonly vllm: readonly (readonly [name: string, args: object])[] | undefined;
  /** The text that vLLM's test expects; undefined where it does not say. */
  readonly content?: string;
  /** What hone reads where that is something else. */
  readonly hone?: {
    readonly calls?: readonly (readonly [name: string, args: object])[];
    readonly errors?: readonly string[];
    readonly content?: string;
    readonly why: string;
  };
}

const tokyo = ["get_weather", { city: "Tokyo" }] as const;
const tokyoTime = ["get_time", { timezone: "Asia/Tokyo" }] as const;
const tokyoText = '{"name": "get_weather", "arguments": {"city": "Tokyo"}}';
const tokyoTimeText = '{"name": "get_time", "arguments": {"timezone": "Asia/Tokyo"}}';

/** The value of all types and the texts with escapes that vLLM's common tests have. */
const types = {
  string_field: "hello",
  int_field: 42,
  float_field: 3.14,
  bool_field: true,
  null_field: null,
  array_field: ["a", "b", "c"],
  object_field: { nested: "value" },
  empty_array: [],
  empty_object: {},
};
const escapes = {
  quoted: 'He said "hello"',
  path: "C:\\Users\\file.txt",
  newline: "line1\nline2",
  unicode: "emoji: 🎉",
};
const listOf = (name: string, args: object) => `[${JSON.stringify({ name, arguments: args }, undefined, 2)}]`;

const plain = "This is a regular response without any tool calls.";
const told = "the model is told what is wrong, and the call is counted; vLLM's test asks for no error alone";

const granite: Omit<VllmCase, "format">[] = [
  { about: "no call", text: plain, vllm: [], content: plain },
  { about: "one call", text: `<|tool_call|> [${tokyoText}]`, vllm: [tokyo] },
  { about: "one call behind the text of 3.1", text: `<tool_call> [${tokyoText}]`, vllm: [tokyo] },
  {
    about: "two calls",
    text: `<|tool_call|> [\n  ${tokyoText},\n  ${tokyoTimeText}\n]`,
    vllm: [tokyo, tokyoTime],
  },
  {
    about: "arguments before names",
    text: '<|tool_call|> [{"arguments": {"city": "Tokyo"}, "name": "get_weather"}, {"arguments": {"timezone": "Asia/Tokyo"}, "name": "get_time"}]',
    vllm: [tokyo, tokyoTime],
  },
  {
    about: "two calls at once",
    text: '<|tool_call|>[{"name": "get_weather", "arguments": {"x": 42}}, {"name": "b", "arguments": {"y": 7}}]',
    vllm: [
      ["get_weather", { x: 42 }],
      ["b", { y: 7 }],
    ],
  },
  { about: "all types", text: `<tool_call> ${listOf("test_function", types)}`, vllm: [["test_function", types]] },
  { about: "no arguments", text: '<|tool_call|> [{"name": "refresh", "arguments": {}}]', vllm: [["refresh", {}]] },
  { about: "escapes", text: `<tool_call> ${listOf("test_function", escapes)}`, vllm: [["test_function", escapes]] },
  {
    about: "text around a call",
    text: `Let me check the weather for you.\n<|tool_call|> [${tokyoText}]\nI'll get that information.`,
    vllm: [tokyo],
    hone: {
      calls: [tokyo],
      content: "Let me check the weather for you.\n\nI'll get that information.",
      why: "both are kept here; vLLM's parser finds no call, and its test is marked as failing",
    },
  },
  {
    about: "a list that is cut off",
    text: '<|tool_call|> [{"name": "func", "arguments": {',
    vllm: undefined,
    hone: { errors: ["the list of tool calls does not end"], why: told },
  },
  {
    about: "a call without its list",
    text: '<|tool_call|> {"name": "func", "arguments": {}}',
    vllm: undefined,
    hone: { errors: ["no JSON list of tool calls follows <|tool_call|>"], why: told },
  },
  {
    about: "arguments as a string, without a mark",
    text: '[{"name": "func", "arguments": "not a dict"}]',
    vllm: undefined,
    hone: { why: "a list without a mark is text; vLLM's parser takes it for a call with a string as its arguments" },
  },
  {
    about: "a list in text, without a mark",
    text: 'Some text [{"name": "func"}]',
    vllm: undefined,
    hone: { why: "text for both; vLLM's test asks for no error alone" },
  },
];

const weather = (city: string, state: string) => ["get_current_weather", { city, state, unit: "fahrenheit" }] as const;
const seattle = ["get_current_weather", { city: "Seattle" }] as const;
const textOf = (...calls: readonly (readonly [name: string, args: object])[]) =>
  `[${calls.map(([name, args]) => `{"name": "${name}", "arguments": ${JSON.stringify(args)}}`).join(", ")}]`;
const dallas = weather("Dallas", "TX");
const rainy = ["get_current_weather", { city: "Seattle", state: "WA", unit: "celsius" }] as const;
const thought = "<think>I'll help you with that.</think>";

const xlam: Omit<VllmCase, "format">[] = [
  { about: "no call", text: "This is a test", vllm: [], content: "This is a test" },
  {
    about: "two calls",
    text: textOf(dallas, weather("Orlando", "FL")),
    vllm: [dallas, weather("Orlando", "FL")],
  },
  { about: "behind a thought", text: `${thought}${textOf(dallas)}`, vllm: [dallas], content: thought },
  {
    about: "a block",
    text: `I'll help you with that.\n\`\`\`json\n${textOf(dallas)}\n\`\`\``,
    vllm: [dallas],
    content: "I'll help you with that.",
  },
  {
    about: "behind [TOOL_CALLS]",
    text: `I'll check the weather for you.[TOOL_CALLS]${textOf(dallas)}`,
    vllm: [dallas],
    content: "I'll check the weather for you.",
  },
  {
    about: "between tags",
    text: `I'll help you check the weather.<tool_call>${textOf(dallas)}</tool_call>`,
    vllm: [dallas],
    content: "I'll help you check the weather.",
  },
  { about: "one call", text: textOf(rainy), vllm: [rainy] },
  { about: "the list itself", text: textOf(seattle), vllm: [seattle] },
  {
    about: "the list itself behind a thought",
    text: `${thought}${textOf(seattle)}`,
    vllm: [seattle],
    content: thought,
  },
  {
    about: "the list itself in a block",
    text: `I'll help you with that.\n\`\`\`json\n${textOf(seattle)}\n\`\`\``,
    vllm: [seattle],
    content: "I'll help you with that.",
  },
  { about: "an answer", text: "I'll help you with that.", vllm: [], content: "I'll help you with that." },
];

const phi4: Omit<VllmCase, "format">[] = [
  { about: "no call", text: plain, vllm: [], content: plain },
  { about: "one call", text: `functools[${tokyoText}]`, vllm: [tokyo] },
  { about: "two calls", text: `functools[\n  ${tokyoText},\n  ${tokyoTimeText}\n]`, vllm: [tokyo, tokyoTime] },
  { about: "no arguments", text: 'functools[{"name": "refresh", "arguments": {}}]', vllm: [["refresh", {}]] },
  { about: "escapes", text: `functools${listOf("test_function", escapes)}`, vllm: [["test_function", escapes]] },
  {
    about: "all types",
    text: `functools${listOf("test_function", types)}`,
    vllm: [["test_function", types]],
    hone: {
      calls: [["test_function", types]],
      content: "",
      why: "vLLM's test is marked as failing: its parser ends the list at the first closing bracket",
    },
  },
  {
    about: "text around a call",
    text: `Let me check the weather for you.\nfunctools[${tokyoText}]\nWould you like to know more?`,
    vllm: [tokyo],
    hone: {
      calls: [tokyo],
      content: "Let me check the weather for you.\n\nWould you like to know more?",
      why: "the text is kept; vLLM's parser drops it",
    },
  },
  {
    about: "a list that is cut off",
    text: 'functools[{"name": "func", "arguments": {',
    vllm: undefined,
    hone: { errors: ["the list of tool calls does not end"], why: told },
  },
  {
    about: "arguments as a string",
    text: 'functools[{"name": "func", "arguments": "not a dict"}]',
    vllm: undefined,
    hone: { errors: ['the tool call has no "arguments" object'], why: told },
  },
  {
    about: "no list",
    text: 'functools{"name": "func"}',
    vllm: undefined,
    hone: { errors: ["no JSON list of tool calls follows functools"], why: told },
  },
  {
    about: "a call without arguments",
    text: 'functools[{"name": "func"}]',
    vllm: undefined,
    hone: { errors: ['the tool call has no "arguments" object'], why: told },
  },
  {
    about: "an empty list",
    text: "functools[] This is just text",
    vllm: undefined,
    hone: { errors: ["the list of tool calls is empty"], why: told },
  },
  {
    about: "no JSON",
    text: "functools[ This is just text ]",
    vllm: undefined,
    hone: { errors: ["the list of tool calls is not valid JSON"], why: told },
  },
];

const simple = ["get_weather", { city: "San Francisco", metric: "celsius" }] as const;
const simpleText = "get_weather(city='San Francisco', metric='celsius')";
const user = {
  name: "John Doe",
  age: 37,
  address: { city: "San Francisco", state: "CA" },
  role: null,
  passed_test: true,
  aliases: ["John", "Johnny"],
};
const userText =
  "register_user(name='John Doe', age=37, address={'city': 'San Francisco', 'state': 'CA'}, role=None, passed_test=True, aliases=['John', 'Johnny'])";
const angeles = ["get_weather", { city: "LA", metric: "C" }] as const;
const doe = ["register_user", { name: "Doe", age: 9 }] as const;
const angelesText = "get_weather(city='LA', metric='C')";
const apart = "both read the good call; hone also tells the model of the bad one, and keeps the text";

/** Cases of the parsers pythonic and llama4_pythonic. */
const pythonic: Omit<VllmCase, "format">[] = [
  { about: "no call", text: "How can I help you today?", vllm: [], content: "How can I help you today?" },
  { about: "one call", text: `[${simpleText}]`, vllm: [simple] },
  { about: "all types", text: `[${userText}]`, vllm: [["register_user", user]] },
  { about: "no arguments", text: "[get_weather()]", vllm: [["get_weather", {}]] },
  {
    about: "an empty dictionary",
    text: "[do_something_cool(additional_data={})]",
    vllm: [["do_something_cool", { additional_data: {} }]],
  },
  { about: "an empty list", text: "[do_something_cool(steps=[])]", vllm: [["do_something_cool", { steps: [] }]] },
  {
    about: "escapes",
    text: String.raw`[get_weather(city='Martha\'s Vineyard', metric='\"cool units\"')]`,
    vllm: [["get_weather", { city: "Martha's Vineyard", metric: '"cool units"' }]],
  },
  { about: "two calls", text: `[${simpleText}, ${userText}]`, vllm: [simple, ["register_user", user]] },
  {
    about: "two calls without spaces",
    text: "[get_weather(city='LA',metric='C'),register_user(name='Doe',age=9)]",
    vllm: [angeles, doe],
  },
  { about: "between tokens", text: `<|python_start|>[${angelesText}]<|python_end|>`, vllm: [angeles] },
  {
    about: "behind a token",
    text: `<|python_start|>[${angelesText}, register_user(name='Doe', age=9)]`,
    vllm: [angeles, doe],
  },
  {
    about: "a text that takes vLLM's pattern long",
    text: `hello world[A(A=${"\t)A(A=,\t".repeat(2)}`,
    vllm: [],
    content: `hello world[A(A=${"\t)A(A=,\t".repeat(2)}`,
    hone: {
      errors: [") begins no Python literal", "no , or ] follows the tool call"],
      content: `hello world[A(A=${"\t)A(A=,\t".repeat(2)}`.trim(),
      why: "a bracket, a name and a named argument begin a call wherever they stand; vLLM reads whole turns alone",
    },
  },
  {
    about: "bytes beside a good call",
    text: `[bad(x=b'z'), ${simpleText}]`,
    vllm: [simple],
    hone: { calls: [simple], errors: ["b begins no Python literal"], why: apart },
  },
  {
    about: "bytes beside a good call, between tokens",
    text: `<|python_start|>[bad(x=b'z'), ${angelesText}]<|python_end|>`,
    vllm: [angeles],
    hone: { calls: [angeles], errors: ["b begins no Python literal"], why: apart },
  },
  {
    about: "infinity beside a good call",
    text: `[calc(x=1e999), ${simpleText}]`,
    vllm: [simple],
    hone: { calls: [simple], errors: ["1e999 is no finite number"], why: apart },
  },
  {
    about: "infinity beside a good call, between tokens",
    text: `<|python_start|>[calc(x=1e999), ${angelesText}]<|python_end|>`,
    vllm: [angeles],
    hone: { calls: [angeles], errors: ["1e999 is no finite number"], why: apart },
  },
  {
    about: "a broken text behind a good call",
    text: `[${simpleText}, f(a='x 'y', b='z')]`,
    vllm: [simple],
    hone: { calls: [simple], errors: ["no , or ) follows an argument"], why: apart },
  },
  {
    about: "broken texts",
    text: "[f(a='x 'y' 'z), g(b='p 'q' 'r)]",
    vllm: [],
    content: "[f(a='x 'y' 'z), g(b='p 'q' 'r)]",
    hone: {
      errors: ["no , or ) follows an argument", "no , or ) follows an argument"],
      why: "the model is told what is wrong; vLLM takes it for an answer",
    },
  },
];

const object = (properties: object) => ({ type: "object", properties });
const string = { type: "string" };
const optional = (...types: string[]) => ({ anyOf: [...types, "null"].map((type) => ({ type })) });
const sampleTools: readonly CallableTool[] = [
  {
    name: "get_current_weather",
    parameters: object({ city: string, state: string, unit: { type: "string", enum: ["fahrenheit", "celsius"] } }),
  },
  {
    name: "calculate_area",
    parameters: object({ shape: string, dimensions: { type: "object" }, precision: { type: "integer" } }),
  },
];
const tagged = (name: string, fields: Readonly<Record<string, string>>) => {
  const lines = Object.entries(fields).map(([key, text]) => `<parameter=${key}>\n${text}\n</parameter>\n`);
  return `<tool_call>\n<function=${name}>\n${lines.join("")}</function>\n</tool_call>`;
};
const taggedWeather = (city: string, state: string, unit = "fahrenheit") =>
  tagged("get_current_weather", { city, state, unit });
const rectangle = { shape: "rectangle", dimensions: '{"width": 10, \n "height": 20}', precision: "2" };
const circle = { shape: "circle", dimensions: '{"radius": 15.5}', precision: "3" };
const bareDallas =
  "<function=get_current_weather>\n<parameter=city>\nDallas\n</parameter>\n<parameter=state>\nTX\n</parameter>\n";
const unclosed = taggedWeather("Dallas", "TX").replace("Dallas\n</parameter>", "Dallas");
const kept = "a call is never repaired: the model is told what is wrong, and the text is kept";

/** Cases of both parsers of its tests, which expect the same with streaming and without. */
const qwen3coder: Omit<VllmCase, "format">[] = [
  {
    about: "no call",
    text: "This is a test response without any tool calls",
    vllm: [],
    content: "This is a test response without any tool calls",
  },
  { about: "one call", text: taggedWeather("Dallas", "TX"), vllm: [dallas] },
  {
    about: "behind a text",
    text: `Sure! Let me check the weather for you.${taggedWeather("Dallas", "TX")}`,
    vllm: [dallas],
    content: "Sure! Let me check the weather for you.",
  },
  {
    about: "a value of two lines",
    text: tagged("calculate_area", rectangle),
    vllm: [["calculate_area", { shape: "rectangle", dimensions: { width: 10, height: 20 }, precision: 2 }]],
  },
  {
    about: "two calls",
    text: `${taggedWeather("Dallas", "TX")}\n${taggedWeather("Orlando", "FL")}`,
    vllm: [dallas, weather("Orlando", "FL")],
  },
  {
    about: "two calls with other units",
    text: `${taggedWeather("Dallas", "TX")}\n${taggedWeather("Orlando", "FL", "celsius")}`,
    vllm: [dallas, ["get_current_weather", { city: "Orlando", state: "FL", unit: "celsius" }]],
  },
  {
    about: "typed values behind a text",
    text: `Let me calculate that area for you.${tagged("calculate_area", circle)}`,
    vllm: [["calculate_area", { shape: "circle", dimensions: { radius: 15.5 }, precision: 3 }]],
    content: "Let me calculate that area for you.",
  },
  {
    about: "no <tool_call>",
    text: `${bareDallas}</function>`,
    vllm: [["get_current_weather", { city: "Dallas", state: "TX" }]],
    hone: { errors: ["no <tool_call> stands before <function="], why: kept },
  },
  {
    about: "no <tool_call> behind a text",
    text: `I'll check the weather for you.\n\n${bareDallas}<parameter=unit>\nfahrenheit\n</parameter>\n</function>\n</tool_call>`,
    vllm: [dallas],
    content: "I'll check the weather for you.",
    hone: { errors: ["no <tool_call> stands before <function="], why: kept },
  },
  {
    about: "each type",
    tools: [
      {
        name: "test_types",
        parameters: object({
          int_param: { type: "integer" },
          float_param: { type: "float" },
          bool_param: { type: "boolean" },
          str_param: string,
          obj_param: { type: "object" },
        }),
      },
    ],
    text: tagged("test_types", {
      int_param: "42",
      float_param: "3.14",
      bool_param: "true",
      str_param: "hello world",
      obj_param: '{"key": "value"}',
    }),
    vllm: [
      [
        "test_types",
        {
          int_param: 42,
          float_param: 3.14,
          bool_param: true,
          str_param: "hello world",
          obj_param: { key: "value" },
        },
      ],
    ],
  },
  {
    about: "anyOf",
    tools: [
      {
        name: "test_anyof",
        parameters: object({
          anyof_int: { ...optional("integer"), default: 5 },
          anyof_str: optional("string"),
          anyof_array: { anyOf: [{ type: "array", items: string }, { type: "null" }] },
          anyof_obj: optional("object"),
          type_as_array: { type: ["integer", "null"] },
          multi_non_null: optional("string", "integer"),
        }),
      },
    ],
    text: tagged("test_anyof", {
      anyof_int: "5",
      anyof_str: "hello",
      anyof_array: '["a", "b", "c"]',
      anyof_obj: '{"key": "value"}',
      type_as_array: "42",
      multi_non_null: "some text",
    }),
    vllm: [
      [
        "test_anyof",
        {
          anyof_int: 5,
          anyof_str: "hello",
          anyof_array: ["a", "b", "c"],
          anyof_obj: { key: "value" },
          type_as_array: 42,
          multi_non_null: "some text",
        },
      ],
    ],
  },
  {
    about: "anyOf with streaming",
    tools: [
      {
        name: "search_web",
        parameters: object({ query: optional("string"), count: optional("integer"), verbose: optional("boolean") }),
      },
    ],
    text: tagged("search_web", { query: "vllm tool parser", count: "10", verbose: "true" }),
    vllm: [["search_web", { query: "vllm tool parser", count: 10, verbose: true }]],
  },
  {
    about: "anyOf in one line",
    tools: [{ name: "update_record", parameters: object({ data: optional("object") }) }],
    text: '<tool_call>\n<function=update_record>\n<parameter=data>{"key": "value", "count": 42}</parameter>\n</function>\n</tool_call>',
    vllm: [["update_record", { data: { key: "value", count: 42 } }]],
  },
  {
    about: "a text in one line",
    tools: [{ name: "greet", parameters: object({ message: string }) }],
    text: "<tool_call>\n<function=greet>\n<parameter=message>hello world</parameter>\n</function>\n</tool_call>",
    vllm: [["greet", { message: "hello world" }]],
  },
  {
    about: "a parameter without its end",
    text: `Let me check the weather for you:\n${unclosed}`,
    vllm: [dallas],
    content: "Let me check the weather for you:",
    hone: { errors: ["the parameter city has no </parameter>"], why: kept },
  },
  {
    about: "a function without >",
    text: "<tool_call>\n<function=get_current_weather\n<parameter=city>Dallas</parameter>\n</function>\n</tool_call>",
    vllm: undefined,
    hone: { errors: ["no <function=NAME> follows <tool_call>"], why: told },
  },
  {
    about: "a function without > beside a good call",
    text: "<tool_call>\n<function=bad_func_no_gt\n</function>\n</tool_call>\n<tool_call>\n<function=get_current_weather>\n<parameter=city>Dallas</parameter>\n<parameter=state>TX</parameter>\n</function>\n</tool_call>",
    vllm: [["get_current_weather", { city: "Dallas", state: "TX" }]],
    hone: {
      calls: [["get_current_weather", { city: "Dallas", state: "TX" }]],
      errors: ["no <function=NAME> follows <tool_call>"],
      content: "<tool_call>\n<function=bad_func_no_gt\n</function>\n</tool_call>",
      why: apart,
    },
  },
].map((one) => ({ tools: sampleTools, ...one }) as Omit<VllmCase, "format">);

const untyped = '"supports_typed_arguments=False": without tools every value is a text';
const field = (key: string, text: string) => `<parameter=${key}>${text}</parameter>\n`;
const call = (name: string, ...fields: string[]) =>
  `<tool_call>\n<function=${name}>\n${fields.join("")}</function>\n</tool_call>`;
const textual = {
  string_field: "hello",
  int_field: "42",
  float_field: "3.14",
  bool_field: "true",
  null_field: "null",
  array_field: '["a", "b", "c"]',
  object_field: '{"nested": "value"}',
};

/** Cases of the parser qwen3_xml, which is given no tools. */
const qwen3xml: Omit<VllmCase, "format">[] = [
  { about: "no call, qwen3_xml", text: plain, vllm: [], content: plain },
  { about: "one call, qwen3_xml", text: call("get_weather", field("city", "Tokyo")), vllm: [tokyo] },
  {
    about: "two calls, qwen3_xml",
    text: `${call("get_weather", field("city", "Tokyo"))}${call("get_time", field("timezone", "Asia/Tokyo"))}`,
    vllm: [tokyo, tokyoTime],
  },
  {
    about: `all types (${untyped}), qwen3_xml`,
    text: call("test_function", ...Object.entries(textual).map(([key, text]) => field(key, text))),
    vllm: [["test_function", textual]],
  },
  { about: "no arguments, qwen3_xml", text: call("refresh"), vllm: [["refresh", {}]] },
  {
    about: "text around a call, qwen3_xml",
    text: `Let me check the weather for you.\n\n${call("get_weather", field("city", "Tokyo"))}\n\nI will get that information.`,
    vllm: [tokyo],
    hone: {
      calls: [tokyo],
      content: "Let me check the weather for you.\n\n\n\nI will get that information.",
      why: "the text is kept; vLLM's parser drops what stands behind the call",
    },
  },
  {
    about: "escapes, qwen3_xml",
    text: call(
      "test_function",
      field("quoted", 'He said "hello"'),
      field("path", "C:\\Users\\file.txt"),
      field("newline", "line1\nline2"),
    ),
    vllm: [["test_function", { quoted: 'He said "hello"', path: "C:\\Users\\file.txt", newline: "line1\nline2" }]],
  },
  {
    about: "a call that is cut off, qwen3_xml",
    text: "<tool_call><function=func>",
    vllm: undefined,
    hone: { errors: ["no </function> follows the parameters"], why: told },
  },
  {
    about: "no name, qwen3_xml",
    text: "<tool_call><function=></function></tool_call>",
    vllm: undefined,
    hone: { errors: ["no <function=NAME> follows <tool_call>"], why: told },
  },
];

const of = (format: string, cases: readonly Omit<VllmCase, "format">[]): VllmCase[] =>
  cases.map((one) => ({ format, ...one }));

const between = (calls: string) => `<|tool_call_start|>[${calls}]<|tool_call_end|>`;
const repaired = "a call is never repaired: the model is told what is wrong with it";

/** Texts for the parser lfm2, with what that of vLLM 0.32 reads in them. */
const lfm2: Omit<VllmCase, "format">[] = [
  { about: "no call", text: plain, vllm: [], content: plain },
  { about: "one call", text: between(simpleText), vllm: [simple] },
  { about: "all types", text: between(userText), vllm: [["register_user", user]] },
  { about: "no arguments", text: between("refresh()"), vllm: [["refresh", {}]] },
  { about: "empty values", text: between("look(at={}, of=[])"), vllm: [["look", { at: {}, of: [] }]] },
  { about: "two calls", text: between(`${simpleText}, ${userText}`), vllm: [simple, ["register_user", user]] },
  {
    about: "a name with a dot",
    text: between("shop.order(items=[{'n': 2}])"),
    vllm: [["shop.order", { items: [{ n: 2 }] }]],
  },
  { about: "a bracket in a text", text: between("run(line='a[\"]\"]')"), vllm: [["run", { line: 'a["]"]' }]] },
  { about: "a line break in a text", text: between("run(line='a\nb')"), vllm: [["run", { line: "a\nb" }]] },
  { about: "JSON's words", text: between("look(at=true, of=null)"), vllm: [["look", { at: true, of: null }]] },
  { about: "a keyword for a name", text: between("send(from='a')"), vllm: [["send", { from: "a" }]] },
  {
    about: "white space before the list",
    text: `<|tool_call_start|> [${simpleText}]<|tool_call_end|>`,
    vllm: [simple],
  },
  {
    about: "text around a call",
    text: `Let me see.\n${between(simpleText)}\nIt rains.`,
    vllm: [simple],
    content: "Let me see.\nIt rains.",
    hone: { calls: [simple], content: "Let me see.\n\nIt rains.", why: "the text is kept as it was written" },
  },
  {
    about: "bytes beside a good call",
    text: between(`${simpleText}, bad(x=b'z')`),
    vllm: [],
    hone: { calls: [simple], errors: ["b begins no Python literal"], why: "each call is read on its own" },
  },
  {
    about: "a list that is not closed",
    text: `<|tool_call_start|>[${simpleText}]`,
    vllm: [simple],
    hone: { errors: ["no <|tool_call_end|> follows the list of tool calls"], why: repaired },
  },
  {
    about: "a number that begins with zero",
    text: between("date(month=07)"),
    vllm: [["date", { month: 7 }]],
    hone: { errors: ["07 is no Python literal"], why: repaired },
  },
  {
    about: "quotes within quotes",
    text: between("run(line='sed -n '1,9p' f')"),
    vllm: [["run", { line: "sed -n '1,9p' f" }]],
    hone: { errors: ["no , or ) follows an argument"], why: repaired },
  },
  {
    about: "a set",
    text: between("label(tags={'a', 'b'})"),
    vllm: [["label", { tags: ["a", "b"] }]],
    hone: { errors: ["no : follows a key"], why: "JSON has no sets; vLLM makes them lists" },
  },
  {
    about: "an empty list",
    text: between(""),
    vllm: [],
    hone: { errors: ["no tool call stands in the list"], why: told },
  },
];

export const vllmCases: readonly VllmCase[] = [
  ...of("granite", granite),
  ...of("pythonic", pythonic),
  ...of("xlam", xlam),
  ...of("phi4", phi4),
  ...of("qwen3coder", qwen3coder),
  ...of("qwen3coder", qwen3xml),
  ...of("lfm2", lfm2),
];
