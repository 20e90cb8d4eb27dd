/**
 * Hermes, Qwen2.5, Qwen3: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, several in a turn, text around
 * them.
 */

import type { ToolFormat } from "../../core/rollout/conversation.js";
import { malformed, readCall, readMarked, schemaOfCall, writtenCall, writtenTool } from "./format.js";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

export const hermes: ToolFormat = {
  name: "hermes",
  ends: [],
  frames: [OPEN, CLOSE],
  begins: [OPEN],
  marks: { anywhere: [OPEN], first: [] },
  grammar({ tools, many, json }) {
    const call = `"${OPEN}" space ${json(schemaOfCall(tools, "arguments"), "tagless")} space "${CLOSE}"`;
    return many ? `${call} (space ${call})*` : call;
  },
  write: (calls, asText) =>
    calls
      // Tags inside of a text would begin and end calls.
      .map((call) => asText(writtenCall(call, "arguments").replace(/<(?=\/?tool_call>)/g, "\\u003c")))
      .map((json) => `${OPEN}\n${json}\n${CLOSE}`)
      .join("\n"),
  // The text of Qwen2.5's template.
  describe: (tools) =>
    [
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n",
      "You are provided with function signatures within <tools></tools> XML tags:\n<tools>",
      ...tools.map((tool) => writtenTool(tool)),
      "</tools>\n",
      `For each function call, return a json object with function name and arguments within ${OPEN}${CLOSE} XML tags:`,
      `${OPEN}\n{"name": <function-name>, "arguments": <args-json-object>}\n${CLOSE}`,
    ].join("\n"),
  read: (text) =>
    readMarked(text, [OPEN], (rest) => {
      const close = rest.indexOf(CLOSE);
      if (close >= 0)
        return { calls: [readCall(rest.slice(0, close).trim(), ["arguments"])], length: close + CLOSE.length };
      return { calls: [malformed(rest.trim(), `the tool call has no ${CLOSE}`)], length: rest.length };
    }),
};
