/**
 * Texts of vLLM's own tests of its parsers (vllm-project/vllm, tests/tool_parsers), with what those tests expect without
 * streaming. vLLM drops text behind a call and white space around it; where nothing else differs, both read the text alike.
 */
export interface VllmCase {
  readonly format: string;
  readonly about: string;
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

const of = (format: string, cases: readonly Omit<VllmCase, "format">[]): VllmCase[] =>
  cases.map((one) => ({ format, ...one }));

export const vllmCases: readonly VllmCase[] = [
  ...of("granite", granite),
  ...of("pythonic", pythonic),
  ...of("xlam", xlam),
  ...of("phi4", phi4),
];
