/** Conversations with a text of one's choice in every place that a task, a mail or a model can write to. */
import type { ChatMessage, ToolSchema } from "../../../src/core/task/task.js";

/** Texts that could be taken for something else on their way through a template. */
export const traps = [
  // Noncharacters, and what hone makes of them: stand-ins and the marker of a turn, whole and in part.
  ..."\uFDD0\uFDD1\uFDD2\uFDD3\uFDD4\uFDEF\uFFFE\uFFFF",
  "\uFDD2turn\uFDD3",
  "\uFDD00\uFDD1",
  "\uFDD01\uFDD1",
  "\uFDD0x\uFDD1",
  "turn",
  "0",
  "1",
  "x",
  // Template syntax, and what templates look for.
  "{{ messages }}",
  "{{",
  "}}",
  "{%",
  "%}",
  "{% endfor %}",
  "{% raw %}",
  "{#",
  "#}",
  "{{- '<|im_end|>' -}}",
  "<tool_response>",
  "</tool_response>",
  "<tool_call>",
  "</tool_call>",
  "<think>",
  "</think>",
  // Halves of characters, and what JSON writes otherwise.
  "\ud83d",
  "\ude00",
  "🙂",
  '"',
  "\\",
  "\\n",
  "\n",
  " ",
  "\u0000",
  "\u2028",
  "'",
  "__proto__",
  "constructor",
  "content",
  "role",
  "a",
];

/** Where a text can stand. */
const slots = ["system", "user", "toolName", "about", "property", "aboutProperty", "choice", "content", "call", "key"];
const resultSlots = ["inner", "value", "result", "result2", "resultName"];
export type Texts = Readonly<Record<string, string>>;
export const allSlots = [...slots, ...resultSlots];
/** Its quotation mark tells whether a template writes it as JSON. */
export const harmless: Texts = Object.fromEntries(allSlots.map((name) => [name, `${name}"x`]));

export interface Conversation {
  readonly before: ChatMessage[];
  readonly tools: ToolSchema[];
  readonly turn: ChatMessage;
  readonly results: ChatMessage[];
}

export function conversation(text: Texts): Conversation {
  const at = (name: string) => text[name] as string;
  const property = { type: "string", description: at("aboutProperty"), enum: [at("choice")] };
  const parameters = { type: "object", properties: { [at("property")]: property }, required: [at("property")] };
  return {
    before: [
      { role: "system", content: at("system") },
      { role: "user", content: at("user") },
    ],
    tools: [{ type: "function", function: { name: at("toolName"), description: at("about"), parameters } }],
    turn: {
      role: "assistant",
      content: at("content"),
      tool_calls: [{ name: at("call"), arguments: { [at("key")]: [{ [at("inner")]: at("value") }] } }],
    },
    results: [
      { role: "tool", name: at("resultName"), content: at("result") },
      { role: "tool", name: at("resultName"), content: at("result2") },
    ],
  };
}
