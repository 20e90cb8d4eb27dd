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

const of = (format: string, cases: readonly Omit<VllmCase, "format">[]): VllmCase[] =>
  cases.map((one) => ({ format, ...one }));

export const vllmCases: readonly VllmCase[] = [...of("granite", granite)];
