/**
 * Calls as a list of Python's calls: `[look_up(word="x"), add(a=1, b=[2])]` (Llama 3.2 and 4), after `<|python_start|>` or without
 * it, text around them. Arguments are literals by name; those whose names Python has not follow as `**` and a JSON object.
 *
 * A list begins after `<|python_start|>`, at a turn's first character, and wherever a call with a named argument, or with
 * none, stands behind its bracket.
 */

import type { ToolFormat, WrittenCall, WrittenCalls } from "../../core/rollout/conversation.js";
import { parseJson, toJson } from "../../core/util/json.js";
import { jsonEnd, malformed, type ReadCalls, readBegun, writtenTool } from "./format.js";
import { closedAt, type Dialect, IDENTIFIER, Literals, NoLiteral, writtenLiteral } from "./python-literals.js";

const [START, END] = ["<|python_start|>", "<|python_end|>"];
/** Names of tools are Python's identifiers too, with dots and hyphens. */
const TOOL = "[_\\p{XIDS}][\\p{XIDC}.\\-]*";
const BEGIN = new RegExp(
  [
    `^\\s*(?=\\[\\s*${TOOL}\\()`,
    `(?=\\[${TOOL}\\((?:\\)|\\*\\*\\{|${IDENTIFIER}=(?!=)))`,
    "<\\|python_start\\|>\\s*",
  ].join("|"),
  "gu",
);
const NAME = new RegExp(`${TOOL}(?=\\()`, "uy");
const KEY = new RegExp(`(${IDENTIFIER})\\s*=(?!=)`, "uy");
const PLAIN = new RegExp(`^${IDENTIFIER}$`, "u");

/** The arguments up to the closing parenthesis. */
function readArguments(reader: Literals): Record<string, unknown> {
  const args = new Map<string, unknown>();
  const add = (key: string, value: unknown) => {
    if (args.has(key)) throw new NoLiteral(`the argument ${key} is given twice`);
    args.set(key, value);
  };
  for (let first = true; !reader.takes(")"); first = false) {
    if (!first && !reader.takes(",")) throw new NoLiteral("no , or ) follows an argument");
    if (!first && reader.takes(")")) break;
    if (reader.takes("**")) {
      const end = reader.text[reader.at] === "{" ? jsonEnd(reader.text, reader.at) : -1;
      if (end < 0) throw new NoLiteral("no JSON object follows **");
      for (const [key, value] of Object.entries(parseJson(reader.text.slice(reader.at, end)) as object))
        add(key, value);
      reader.at = end;
    } else {
      const key = reader.take(KEY)?.[1];
      if (key === undefined) throw new NoLiteral("an argument has no name");
      add(key, reader.value());
    }
  }
  return Object.fromEntries(args);
}

function reasonOf(error: unknown): string {
  if (error instanceof NoLiteral) return error.message;
  return error instanceof SyntaxError ? "no JSON object follows **" : "the tool call is nested too deeply";
}

/** The calls of the list at the beginning of a text. @param mark before the text, for the message to the model */
export function readPythonList(text: string, mark: string, dialect: Dialect = "python"): ReadCalls {
  const calls: WrittenCall[] = [];
  const reader = new Literals(text, 0, dialect);
  const rest = (reason: string, from = reader.at): ReadCalls => ({
    calls: [...calls, malformed(text.slice(from), reason)],
    length: text.length,
  });
  if (!reader.takes("[")) return rest(`no list of calls follows ${mark}`);
  for (;;) {
    const name = reader.take(NAME)?.[0];
    const open = reader.at;
    if (name === undefined) return rest("no tool call stands in the list");
    try {
      reader.takes("(");
      calls.push({ kind: "call", call: { name, arguments: readArguments(reader) } });
    } catch (error) {
      // The next call of the list is read all the same.
      const end = closedAt(text, open, dialect);
      if (end < 0) return rest(reasonOf(error), open - name.length);
      calls.push(malformed(text.slice(open - name.length, end), reasonOf(error)));
      reader.at = end;
    }
    if (reader.takes("]")) return { calls, length: reader.at };
    if (!reader.takes(",")) return rest("no , or ] follows the tool call");
  }
}

const writtenCall = (name: string, args: object): string => {
  const given = Object.entries(args).filter(([, value]) => value !== undefined);
  const plain = given.filter(([key]) => PLAIN.test(key)).map(([key, value]) => `${key}=${writtenLiteral(value)}`);
  const others = given.filter(([key]) => !PLAIN.test(key));
  const more = others.length > 0 ? [`**${toJson(Object.fromEntries(others))}`] : [];
  return `${name}(${[...plain, ...more].join(", ")})`;
};

export const writtenPythonList: ToolFormat["write"] = (calls, asText) =>
  `[${calls.map((call) => asText(writtenCall(call.name, call.arguments))).join(", ")}]`;

/** GBNF of a list. Its rules are those of JSON's texts, which `**` takes. */
export function pythonListRule({ tools, many, json }: WrittenCalls): string {
  const call = `(${tools.map(({ name, parameters }) => `"${name}(**" ${json(parameters)} ")"`).join(" | ")})`;
  return `"[" ${call}${many ? ` ("," space ${call})*` : ""} "]"`;
}

export const pythonic: ToolFormat = {
  name: "pythonic",
  ends: ["<|eom|>", "<|eom_id|>"],
  frames: [START, END],
  begins: ["[", START],
  marks: { anywhere: [START], first: ["["] },
  marksOf: (tool) => [`[${tool}(`],
  grammar: (calls) => `"${START}"? ${pythonListRule(calls)}`,
  write: writtenPythonList,
  // In the words that Llama 3.2's and 4's documentation gives for the form.
  describe: (tools) =>
    [
      "Here is a list of functions in JSON format that you can invoke:\n",
      `${writtenTool(tools, 4)}\n`,
      "If you decide to invoke any of the function(s), you MUST put it in the format of [func_name1(params_name1=params_value1, params_name2=params_value2...), func_name2(params)]",
      "You SHOULD NOT include any other text in the response.",
    ].join("\n"),
  read: (text) =>
    readBegun(text, BEGIN, (rest, [mark]) => {
      const { calls, length } = readPythonList(rest, START);
      const closed = mark.startsWith(START) && rest.startsWith(END, length);
      return { calls, length: closed ? length + END.length : length };
    }),
};
