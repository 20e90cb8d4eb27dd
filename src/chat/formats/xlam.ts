/**
 * xLAM 2: a JSON list of calls. It stands bare, in a block ```` ```json ````, after `[TOOL_CALLS]`, or between `<tool_call>` and
 * `</tool_call>`, with text around it.
 *
 * A bare list begins at a turn's first character when that opens a list of objects, and wherever the first object begins
 * with `"name":`, as in a block.
 */

import type { ToolFormat } from "../../core/rollout/conversation.js";
import { malformed, type ReadCalls, readBegun, readList, schemaOfList, writtenList, writtenTool } from "./format.js";

const TOKEN = "[TOOL_CALLS]";
const [OPEN, CLOSE] = ["<tool_call>", "</tool_call>"];
const FENCE = "```";
const BEGIN =
  /^\s*(?=\[\s*\{)|(?=\[\s*\{\s*"name"\s*:)|(?<mark>```(?:json)?(?=\s*\[\s*\{\s*"name"\s*:)|\[TOOL_CALLS\]|<tool_call>)/g;
/** A mark without its list ends no malformed call: a model may write it ten thousand times. */
const NEXT = /(?:\[TOOL_CALLS\]|<tool_call>)(?=\s*\[\s*\{)|```(?:json)?(?=\s*\[\s*\{\s*"name"\s*:)/;

/** What stands behind a list that a mark begins. */
const closeOf = (mark: string) => (mark === OPEN ? CLOSE : mark.startsWith(FENCE) ? FENCE : "");

/** The calls behind a mark, "" of a bare list. */
function callsBehind(text: string, mark: string): ReadCalls {
  const read = readList(text, mark, NEXT);
  const close = closeOf(mark);
  if (close === "" || read.calls.some(({ kind }) => kind === "malformed")) return read;
  const rest = text.slice(read.length);
  const space = rest.length - rest.trimStart().length;
  if (rest.startsWith(close, space)) return { calls: read.calls, length: read.length + space + close.length };
  return {
    calls: [malformed(text.slice(0, read.length), `no ${close} follows the list of tool calls`)],
    length: read.length,
  };
}

export const xlam: ToolFormat = {
  name: "xlam",
  ends: [],
  frames: [TOKEN, OPEN, CLOSE],
  begins: ["[", OPEN, FENCE],
  marks: {
    anywhere: ['[ { "name" :', TOKEN, OPEN, `${FENCE} [ { "name" :`, `${FENCE}json [ { "name" :`],
    first: ["[ {"],
  },
  grammar(calls) {
    const list = calls.json(schemaOfList(calls));
    const fenced = `"${FENCE}" "json"? space ${list} space "${FENCE}"`;
    return `(${list} | "${TOKEN}" space ${list} | "${OPEN}" space ${list} space "${CLOSE}" | ${fenced})`;
  },
  write: writtenList,
  describe: (tools) =>
    [
      "You have access to a set of tools. When using tools, make calls in a single JSON array:\n",
      '[{"name": "tool_call_name", "arguments": {"arg1": "value1", "arg2": "value2"}}, ... (additional parallel tool calls as needed)]\n',
      ...tools.map((tool) => writtenTool(tool, 4)),
    ].join("\n"),
  read: (text) => readBegun(text, BEGIN, (rest, found) => callsBehind(rest, found.groups?.mark ?? "")),
};
