/**
 * Writes Ollama's Modelfile, with the model's chat template in Ollama's language (Go's text/template).
 *
 * Supports the two turn formats of hone's models (ChatML and Llama 3's); the texts of the system message, of the tools and
 * of their results are taken from the output of the model's own template. A template with another turn format is refused.
 * Differences: Ollama writes the JSON of a tool without the spaces after ":" and ",", and each result of several calls
 * as a turn.
 */
import { JinjaTemplate } from "../../chat/jinja/template.js";
import { HoneError, messageOf } from "../../core/util/errors.js";

interface Turns {
  readonly open: (role: string) => string;
  readonly close: string;
  /** Text between a turn's content and its first call, or between calls. */
  readonly between: string;
}

const TURNS: readonly Turns[] = [
  {
    open: (role) => `<|im_start|>${role}\n`,
    close: "<|im_end|>\n",
    between: "\n",
  },
  {
    open: (role) => `<|start_header_id|>${role}<|end_header_id|>\n\n`,
    close: "<|eot_id|>",
    between: "",
  },
];

const SYSTEM = "HONE SYSTEM";
const USER = "HONE USER";
const ANSWER = "HONE ANSWER";
/** Its quotes tell a template that writes it as JSON from one that writes it as it is. */
const RESULT = 'HONE "RESULT"';
const system = { role: "system", content: SYSTEM };
const user = { role: "user", content: USER };
const tool = (name: string) => ({
  type: "function",
  function: { name, description: "Look.", parameters: { type: "object", properties: {} } },
});
const call = { type: "function", function: { name: "first_look", arguments: { at: 1 } } };
/** The default date of Llama 3's template, which hone uses in training. */
const DATE = "26 Jul 2024";

type Render = (messages: readonly object[], tools?: readonly object[]) => string;

function rendererOf(chat: string, tooled: string, model: string): Render {
  return (messages, tools) => {
    const source = tools ? tooled : chat;
    try {
      const given = { messages, tools: tools ?? null, add_generation_prompt: true, bos_token: "", eos_token: "" };
      return new JinjaTemplate(source).render({ ...given, date_string: DATE }, { strftime_now: () => DATE });
    } catch (error) {
      throw new HoneError(`the chat template of ${model} cannot be rendered: ${messageOf(error)}`, { cause: error });
    }
  };
}

/** Escapes double braces, which are Go's template delimiters. */
const goText = (text: string) => text.replaceAll("{{", '{{ "{{" }}');

/** The text before and after the first occurrence of another; undefined if it does not occur. */
function around(text: string, what: string): readonly [before: string, after: string] | undefined {
  const at = text.indexOf(what);
  return at < 0 ? undefined : [text.slice(0, at), text.slice(at + what.length)];
}

/** Content of the first turn of a role. */
function said(rendered: string, { open, close }: Turns, role: string): string | undefined {
  const turn = around(rendered, open(role))?.[1];
  return turn && around(turn, close.trimEnd())?.[0];
}

/** @throws HoneError when the turn format is not supported */
function turnsOf(render: Render, model: string): Turns {
  const text = render([system, user, { role: "assistant", content: ANSWER }, user]);
  const rest = around(text, SYSTEM)?.[1];
  const asked = ({ open, close }: Turns) => `${open("user")}${USER}${close}${open("assistant")}`;
  const found = TURNS.find((one) => rest === `${one.close}${asked(one)}${ANSWER}${one.close}${asked(one)}`);
  if (found) return found;
  throw new HoneError(
    `the chat template of ${model} is none that hone can write for Ollama; take --to gguf, and llama-server, which reads the template itself`,
  );
}

const tools = [tool("first_look"), tool("other_look")] as const;

interface ToolTexts {
  /** The sample tools as the template renders them. */
  readonly listed: string;
  /** The list of any tools, in Go. */
  readonly list: string;
  /** A call, in Go. */
  readonly call: string;
}

/** How the template renders tools and calls; undefined if in an unsupported format. */
function toolTexts(render: Render, turns: Turns): ToolTexts | undefined {
  const text = render([system, user], tools);
  const written = ["tojson", "tojson(indent=4)"].map((filter) =>
    tools.map((value) => new JinjaTemplate(`{{ value | ${filter} }}`).render({ value })),
  );
  const [first, second] = written.find((json) => json.every((one) => text.includes(one))) ?? [];
  if (first === undefined || second === undefined) return undefined;
  const between = around(around(text, first)?.[1] ?? "", second)?.[0];
  const called = render([user, { role: "assistant", content: "", tool_calls: [call] }, user], tools);
  const callInGo = said(called, turns, "assistant")
    ?.replace("first_look", "{{ $call.Function.Name }}")
    .replace(/\{"at":\s*1\}/, "{{ $call.Function.Arguments }}");
  if (between === undefined || !callInGo?.includes("$call.Function.Arguments")) return undefined;
  const one = '{"type": "function", "function": {{ $tool.Function }}}';
  const list = `{{ range $n, $tool := $.Tools }}{{ if $n }}${goText(between)}{{ end }}${one}{{ end }}`;
  return { listed: first + between + second, list, call: callInGo };
}

/** The turn with a tool's result, in Go; undefined if the template shows none. */
function resultTurn(render: Render, { open, close }: Turns): string | undefined {
  const called = [system, user, { role: "assistant", content: "", tool_calls: [call] }];
  let text: string;
  try {
    text = render([...called, { role: "tool", content: RESULT }], tools);
  } catch {
    // A template may refuse the role.
    return undefined;
  }
  const forms = [
    [JSON.stringify(RESULT), "{{ json .Content }}"],
    [RESULT, "{{ .Content }}"],
  ] as const;
  const [written, inGo] = forms.find(([form]) => text.includes(form)) ?? [];
  if (written === undefined || inGo === undefined) return undefined;
  const [before, after] = around(text, written) as readonly [string, string];
  const [mark = ""] = open("\0").split("\0");
  const end = around(after, close.trimEnd())?.[0];
  return end === undefined ? undefined : goText(before.slice(before.lastIndexOf(mark))) + inGo + goText(end) + close;
}

/** Converts text rendered by the template to Go: the tools and the content of messages become variables. */
function inGo(text: string, words: string, variable: string, found: ToolTexts | undefined): string {
  const go = goText(text).replace(words, () => variable);
  return found ? go.replace(goText(found.listed), () => found.list) : go;
}

/**
 * The chat template in Go, and whether it supports tools; if not, they must be put into the system message.
 *
 * @param tooled the template of conversations with tools, where the model has one of its own
 */
export function ollamaTemplate(
  source: string,
  model: string,
  tooled = source,
): { readonly template: string; readonly tools: boolean } {
  const render = rendererOf(source, tooled, model);
  const turns = turnsOf(render, model);
  const { open, close, between } = turns;
  const result = resultTurn(render, turns);
  const found = toolTexts(render, turns);
  const first = (role: string, messages: readonly object[], withTools: boolean) =>
    said(render(messages, withTools ? tools : undefined), turns, role);
  const systemTurn = (given: boolean, withTools: boolean) => {
    const text = first("system", given ? [system, user] : [user], withTools);
    return text === undefined ? "" : `${open("system")}${inGo(text, SYSTEM, "{{ .System }}", found)}${close}`;
  };
  const opening = (withTools: boolean) =>
    `{{ if .System }}${systemTurn(true, withTools)}{{ else }}${systemTurn(false, withTools)}{{ end }}`;
  const userText = (withTools: boolean) =>
    inGo(first("user", [system, user], withTools) ?? USER, USER, "{{ .Content }}", found);
  const asked =
    found && userText(true) !== userText(false)
      ? `{{ if and $.Tools $first }}${userText(true)}{{ else }}${userText(false)}{{ end }}{{ $first = false }}`
      : userText(false);
  const one = found && `{{ if or $n $said.Content }}${between}{{ end }}${found.call}`;
  const calls = one ? `{{ range $n, $call := .ToolCalls }}${one}{{ end }}` : "";
  const template = [
    found ? `{{ if .Tools }}${opening(true)}{{ else }}${opening(false)}{{ end }}` : opening(false),
    "{{ $first := true }}{{ range $i, $said := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 }}",
    `{{ if eq .Role "user" }}${open("user")}${asked}${close}`,
    `{{ else if eq .Role "assistant" }}${open("assistant")}{{ .Content }}${calls}{{ if not $last }}${close}{{ end }}`,
    result === undefined ? "{{ end }}" : `{{ else if eq .Role "tool" }}${result}{{ end }}`,
    `{{ if and (ne .Role "assistant") $last }}${open("assistant")}{{ end }}{{ end }}`,
  ].join("");
  return { template, tools: found !== undefined };
}

export interface ModelfileFacts {
  /** Model file, in the same folder as the Modelfile. */
  readonly file: string;
  readonly template: string;
  readonly temperature: number;
  readonly context: number;
}

export function modelfileText({ file, template, temperature, context }: ModelfileFacts): string {
  const stops = TURNS.map(({ close }) => close.trimEnd()).filter((stop) => template.includes(stop));
  const lines = [
    "# Made by hone. Not run with Ollama.",
    `FROM ./${file}`,
    `TEMPLATE """${template}"""`,
    `PARAMETER temperature ${temperature}`,
    `PARAMETER num_ctx ${context}`,
    ...stops.map((stop) => `PARAMETER stop "${stop}"`),
  ];
  return `${lines.join("\n")}\n`;
}
