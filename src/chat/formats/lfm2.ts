/**
 * LFM2: a list of Python's calls between `<|tool_call_start|>` and `<|tool_call_end|>`, text around it. Its templates write values
 * as they are: JSON's `true`, `false` and `null` are literals too, and texts may have line breaks.
 */

import type { ToolFormat } from "../../core/rollout/conversation.js";
import { malformed, readMarked, writtenTool } from "./format.js";
import { pythonListRule, readPythonList, writtenPythonList } from "./pythonic.js";

const [START, END] = ["<|tool_call_start|>", "<|tool_call_end|>"];

export const lfm2: ToolFormat = {
  name: "lfm2",
  asks: "List of tools: ",
  ends: [],
  frames: [START, END],
  begins: [START],
  marks: { anywhere: [START], first: [] },
  grammar: (calls) => `"${START}" ${pythonListRule(calls)} "${END}"`,
  write: (calls, asText) => `${START}${writtenPythonList(calls, asText)}${END}`,
  // As LFM2.5's templates do.
  describe: (tools) => `List of tools: [${tools.map((tool) => writtenTool(tool)).join(", ")}]`,
  read: (text) =>
    readMarked(text, [START], (rest) => {
      const { calls, length } = readPythonList(rest, START, "json too");
      const closing = /^\s*/.exec(rest.slice(length))?.[0].length ?? 0;
      if (rest.startsWith(END, length + closing)) return { calls, length: length + closing + END.length };
      if (calls.some(({ kind }) => kind === "malformed")) return { calls, length };
      return { calls: [malformed(rest.slice(0, length), `no ${END} follows the list of tool calls`)], length };
    }),
};
