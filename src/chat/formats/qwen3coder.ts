/**
 * Qwen3-Coder, Qwen3.5: `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`, a tag to a line,
 * several in a turn, text around them. Values are text: the types are those of the tool's schema.
 *
 * A line break on either side of a value is the form's, all others are the value's. A value ends at the first `</parameter>` that
 * another parameter or the end of the function follows.
 */

import type { CallableTool, ToolFormat, WrittenCall } from "../../core/rollout/conversation.js";
import type { ToolCall } from "../../core/task/task.js";
import { jsonText } from "../jinja/json.js";
import { asValue } from "../jinja/values.js";
import { malformed, type ReadCalls, readMarked, writtenTool } from "./format.js";
import { bareText, propertiesOf, typedValue } from "./typed-text.js";

const [OPEN, CLOSE] = ["<tool_call>", "</tool_call>"];
const [FUNCTION, FUNCTION_END] = ["<function=", "</function>"];
const [PARAMETER, PARAMETER_END] = ["<parameter=", "</parameter>"];
const HEAD = /\s*<function=([^<>\n]+)>\s*/y;
const KEY = /<parameter=([^>\n]+)>/y;
const VALUE_END = /<\/parameter>(?=\s*(?:<parameter=|<\/function>))/g;
const SPACE = /\s*/y;
const TAIL = /<\/function>\s*<\/tool_call>/y;
/** What shows within a value that its end is missing. */
const NEXT_CALL = /<\/function>\s*<\/tool_call>/;
const NEXT_KEY = /\n<parameter=([^>\n]+)>/g;

/** What is wrong with a call. */
class Wrong extends Error {}

/** Reads one call behind its `<tool_call>`. */
class Reader {
  readonly #text: string;
  readonly #tools: readonly CallableTool[];
  at = 0;

  constructor(text: string, tools: readonly CallableTool[]) {
    this.#text = text;
    this.#tools = tools;
  }

  #take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.#text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  /** @throws Wrong */
  call(): ToolCall {
    const name = this.#take(HEAD)?.[1];
    if (name === undefined) throw new Wrong(`no <function=NAME> follows ${OPEN}`);
    const schema = this.#tools.find((tool) => tool.name === name)?.parameters ?? {};
    const known = propertiesOf(schema);
    const args = new Map<string, unknown>();
    for (;;) {
      const key = this.#take(KEY)?.[1];
      if (key === undefined) break;
      const own = Object.hasOwn(known, key) ? known[key] : undefined;
      args.set(key, typedValue(this.#value(key, known), own, schema));
      this.#take(SPACE);
    }
    if (!this.#take(TAIL)) {
      const closed = this.#text.startsWith(FUNCTION_END, this.at);
      throw new Wrong(closed ? `the tool call has no ${CLOSE}` : `no ${FUNCTION_END} follows the parameters`);
    }
    return { name, arguments: Object.fromEntries(args) };
  }

  #value(key: string, known: object): string {
    VALUE_END.lastIndex = this.at;
    const end = VALUE_END.exec(this.#text)?.index ?? -1;
    const value = end < 0 ? "" : this.#text.slice(this.at, end);
    const begun = [...value.matchAll(NEXT_KEY)].some(([, next]) => Object.hasOwn(known, next as string));
    if (end < 0 || begun || NEXT_CALL.test(value)) throw new Wrong(`the parameter ${key} has no ${PARAMETER_END}`);
    this.at = end + PARAMETER_END.length;
    return value.replace(/^\n/, "").replace(/\n$/, "");
  }
}

/** A malformed call, which extends to its closing tag. */
function wrongUpTo(text: string, close: string, reason: string): ReadCalls {
  const at = text.indexOf(close);
  const length = at < 0 ? text.length : at + close.length;
  return { calls: [malformed(text.slice(0, length).trim(), reason)], length };
}

function callBehind(text: string, tools: readonly CallableTool[]): ReadCalls {
  const reader = new Reader(text, tools);
  try {
    const call: WrittenCall = { kind: "call", call: reader.call() };
    return { calls: [call], length: reader.at };
  } catch (error) {
    if (error instanceof Wrong) return wrongUpTo(text, CLOSE, error.message);
    throw error;
  }
}

export const qwen3coder: ToolFormat = {
  name: "qwen3coder",
  ends: [],
  frames: [OPEN, CLOSE],
  begins: [OPEN, FUNCTION],
  marks: { anywhere: [OPEN, FUNCTION], first: [] },
  grammar({ tools, many, fields }) {
    const tag = {
      open: [PARAMETER, ">\n"] as const,
      close: `\n${PARAMETER_END}\n`,
      without: [PARAMETER, PARAMETER_END, CLOSE],
    };
    const functions = tools.map(({ name, parameters }) => `"${name}>\\n" ${fields(parameters, tag)}`);
    const call = `"${OPEN}" space "${FUNCTION}" (${functions.join(" | ")}) "${FUNCTION_END}" space "${CLOSE}"`;
    return many ? `${call} (space ${call})*` : call;
  },
  write: (calls, asText) =>
    calls
      .map(({ name, arguments: args }) => {
        const given = Object.entries(args).filter(([, value]) => value !== undefined);
        const fields = given.map(([key, value]) => {
          const text = asText(bareText(value, (one) => jsonText(asValue(one))));
          return `${PARAMETER}${asText(key)}>\n${text}\n${PARAMETER_END}\n`;
        });
        return `${OPEN}\n${FUNCTION}${asText(name)}>\n${fields.join("")}${FUNCTION_END}\n${CLOSE}`;
      })
      .join("\n"),
  // The text of Qwen3.5's template.
  describe: (tools) =>
    [
      "# Tools\n\nYou have access to the following functions:\n\n<tools>",
      ...tools.map((tool) => writtenTool(tool)),
      "</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n",
      `${OPEN}\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>`,
      "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n</parameter>",
      `${FUNCTION_END}\n${CLOSE}\n`,
      "<IMPORTANT>\nReminder:",
      `- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within ${OPEN}${CLOSE} XML tags`,
      "- Required parameters MUST be specified",
      "- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after",
      "- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls",
      "</IMPORTANT>",
    ].join("\n"),
  read: (text, tools) =>
    readMarked(text, [OPEN, FUNCTION], (rest, mark) =>
      mark === OPEN ? callBehind(rest, tools) : wrongUpTo(rest, FUNCTION_END, `no ${OPEN} stands before ${FUNCTION}`),
    ),
};
