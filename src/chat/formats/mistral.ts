/**
 * Mistral, after the token `[TOOL_CALLS]`: a JSON list of calls (7B v0.3, Nemo), or a call for each token as
 * `name[ARGS]{...}`, with `[CALL_ID]` and the call's id between (Small 3.2). Text may stand before and behind.
 */

import type { ToolFormat } from "../../core/rollout/conversation.js";
import {
  callOf,
  jsonEnd,
  parsed,
  type ReadCalls,
  readList,
  readMarked,
  schemaOfList,
  writtenList,
  writtenTool,
  wrongUpTo,
} from "./format.js";

const MARK = "[TOOL_CALLS]";
const NEXT = /\[TOOL_CALLS\]/;
const LISTED = /^(\{|\[(?!ARGS\]|CALL_ID\]))/;
const NAMED = /^([^[{]*)(?:\[CALL_ID\]([^[{]*))?\[ARGS\]\s*/;

const wrong = (text: string, reason: string) => wrongUpTo(text, NEXT, reason);

function readNamed(text: string): ReadCalls {
  const [head, name = "", id] = NAMED.exec(text) ?? [];
  if (head === undefined) return wrong(text, "no [ARGS] follows the tool's name");
  if (name.trim() === "") return wrong(text, `no tool's name follows ${MARK}`);
  if (text[head.length] !== "{") return wrong(text, "no JSON object follows [ARGS]");
  const end = jsonEnd(text, head.length);
  if (end < 0) return wrong(text, "the tool call's JSON does not end");
  const args = parsed(text.slice(head.length, end));
  if (args === undefined) return wrong(text, "the tool call's arguments are not valid JSON");
  const written = { name: name.trim(), arguments: args, ...(id === undefined ? {} : { id: id.trim() }) };
  return { calls: [callOf(written, text.slice(0, end), ["arguments"])], length: end };
}

export const mistral: ToolFormat = {
  name: "mistral",
  ends: [],
  frames: [MARK, "[ARGS]", "[CALL_ID]"],
  begins: [MARK],
  marks: { anywhere: [MARK], first: [] },
  grammar(calls) {
    const { tools, many, sample, json } = calls;
    if (!sample.includes("[ARGS]")) return `"${MARK}" space ${json(schemaOfList(calls))}`;
    const id = '("[CALL_ID]" [a-zA-Z0-9]{9})?';
    const named = tools.map(({ name, parameters }) => `"${name}" ${id} "[ARGS]" space ${json(parameters)}`);
    return `("${MARK}" (${named.join(" | ")}))${many ? "+" : ""}`;
  },
  write: (calls, asText) => `${MARK}${writtenList(calls, asText)}`,
  // Mistral's templates list the tools so, and say nothing of the form of a call.
  describe: (tools) =>
    [
      `[AVAILABLE_TOOLS][${tools.map((tool) => writtenTool(tool)).join(", ")}][/AVAILABLE_TOOLS]`,
      `To call functions, answer with ${MARK}[{"name": <function-name>, "arguments": <args-json-object>}].`,
    ].join("\n"),
  read: (text) =>
    readMarked(text, [MARK], (rest) => {
      const body = rest.trimStart();
      const { calls, length } = LISTED.test(body) ? readList(body, MARK, NEXT) : readNamed(body);
      return { calls, length: rest.length - body.length + length };
    }),
};
