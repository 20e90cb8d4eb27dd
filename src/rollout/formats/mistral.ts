/**
 * Mistral, after the token `[TOOL_CALLS]`: a JSON list of calls (7B v0.3, Nemo), or a call for each token as
 * `name[ARGS]{...}`, with `[CALL_ID]` and the call's id between (Small 3.2). Text may stand before and behind.
 */
import { parseJson, toJson } from "../../util/index.js";
import {
  callOf,
  jsonEnd,
  malformed,
  readMarked,
  schemaOfCall,
  type ToolFormat,
  type WrittenCall,
  writtenCall,
  writtenTool,
} from "./format.js";

const MARK = "[TOOL_CALLS]";
const LISTED = /^(\{|\[(?!ARGS\]|CALL_ID\]))/;
const NAMED = /^([^[{]*)(?:\[CALL_ID\]([^[{]*))?\[ARGS\]\s*/;

interface Part {
  calls: WrittenCall[];
  /** Length of the calls in characters. */
  length: number;
}

/** The end of a malformed call is unknown: it extends to the next token of its kind. */
function wrong(text: string, reason: string): Part {
  const next = text.indexOf(MARK);
  const length = next < 0 ? text.length : next;
  return { calls: [malformed(text.slice(0, length), reason)], length };
}

function parse(text: string): { value: unknown } | undefined {
  try {
    return { value: parseJson(text) };
  } catch {
    // The caller words the message for the model.
    return undefined;
  }
}

function readList(text: string): Part {
  const end = jsonEnd(text, 0);
  if (end < 0) return wrong(text, "the list of tool calls does not end");
  const parsed = parse(text.slice(0, end));
  if (!parsed) return wrong(text, "the list of tool calls is not valid JSON");
  if (!Array.isArray(parsed.value)) return wrong(text, `no JSON list of tool calls follows ${MARK}`);
  if (parsed.value.length === 0) return wrong(text, "the list of tool calls is empty");
  return {
    calls: parsed.value.map((value) => callOf(value, toJson(value), ["arguments"])),
    length: end,
  };
}

function readNamed(text: string): Part {
  const [head, name = "", id] = NAMED.exec(text) ?? [];
  if (head === undefined) return wrong(text, "no [ARGS] follows the tool's name");
  if (name.trim() === "") return wrong(text, `no tool's name follows ${MARK}`);
  if (text[head.length] !== "{") return wrong(text, "no JSON object follows [ARGS]");
  const end = jsonEnd(text, head.length);
  if (end < 0) return wrong(text, "the tool call's JSON does not end");
  const parsed = parse(text.slice(head.length, end));
  if (!parsed) return wrong(text, "the tool call's arguments are not valid JSON");
  const written = { name: name.trim(), arguments: parsed.value, ...(id === undefined ? {} : { id: id.trim() }) };
  return { calls: [callOf(written, text.slice(0, end), ["arguments"])], length: end };
}

export const mistral: ToolFormat = {
  name: "mistral",
  ends: [],
  frames: [MARK, "[ARGS]", "[CALL_ID]"],
  begins: [MARK],
  marks: { anywhere: [MARK], first: [] },
  grammar({ tools, many, sample, json }) {
    if (!sample.includes("[ARGS]")) {
      const items = schemaOfCall(tools, "arguments");
      const list = { type: "array", items, minItems: 1, ...(many ? {} : { maxItems: 1 }) };
      return `"${MARK}" space ${json(list)}`;
    }
    const id = '("[CALL_ID]" [a-zA-Z0-9]{9})?';
    const calls = tools.map(({ name, parameters }) => `"${name}" ${id} "[ARGS]" space ${json(parameters)}`);
    return `("${MARK}" (${calls.join(" | ")}))${many ? "+" : ""}`;
  },
  write: (calls, asText) => `${MARK}[${calls.map((call) => asText(writtenCall(call, "arguments"))).join(", ")}]`,
  // Mistral's templates list the tools so, and say nothing of the form of a call.
  describe: (tools) =>
    [
      `[AVAILABLE_TOOLS][${tools.map((tool) => writtenTool(tool)).join(", ")}][/AVAILABLE_TOOLS]`,
      `To call functions, answer with ${MARK}[{"name": <function-name>, "arguments": <args-json-object>}].`,
    ].join("\n"),
  read: (text) =>
    readMarked(text, MARK, (rest) => {
      const body = rest.trimStart();
      const { calls, length } = LISTED.test(body) ? readList(body) : readNamed(body);
      return { calls, length: rest.length - body.length + length };
    }),
};
