/**
 * Granite 3: a JSON list of calls after the token `<|tool_call|>` (3.0) or the text `<tool_call>` (3.1), text around it.
 * Granite 4 writes calls as Hermes does.
 */

import type { ToolFormat } from "../../core/rollout/conversation.js";
import { readList, readMarked, schemaOfList, writtenList, writtenTool } from "./format.js";

const TOKEN = "<|tool_call|>";
const MARKS = [TOKEN, "<tool_call>"];
/** A mark without its list ends no malformed call: a model may write it ten thousand times. */
const NEXT = /<(?:\|tool_call\||tool_call)>(?=\s*\[)/;

export const granite: ToolFormat = {
  name: "granite",
  asks: `${TOKEN} followed by a JSON list`,
  ends: [],
  frames: MARKS,
  begins: MARKS,
  marks: { anywhere: MARKS, first: [] },
  grammar: (calls) => `(${MARKS.map((mark) => `"${mark}"`).join(" | ")}) space ${calls.json(schemaOfList(calls))}`,
  write: (calls, asText) => `${TOKEN}${writtenList(calls, asText)}`,
  // The text of Granite 3.3's template, which has the tools in a message of their own.
  describe: (tools) =>
    [
      "You are a helpful assistant with access to the following tools. When a tool is required to answer the user's query, ",
      `respond only with ${TOKEN} followed by a JSON list of tools used. If a tool does not exist in the provided list of `,
      "tools, notify the user that you do not have the ability to fulfill the request.\n\n",
      writtenTool(tools, 4),
    ].join(""),
  read: (text) => readMarked(text, MARKS, (rest, mark) => readList(rest, mark, NEXT)),
};
