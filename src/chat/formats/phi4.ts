/** Phi-4-mini: a JSON list of calls after the word `functools`, text around it. */

import type { ToolFormat } from "../../core/rollout/conversation.js";
import { readList, readMarked, schemaOfList, writtenList, writtenTool } from "./format.js";

const WORD = "functools";
/** The word alone is no mark: Python has a module of that name. */
const MARKS = [`${WORD}[`, `${WORD}{`];
const NEXT = /functools\[/;

export const phi4: ToolFormat = {
  name: "phi4",
  asks: `a single JSON list formatted as ${WORD}[`,
  ends: [],
  frames: [WORD],
  begins: MARKS,
  marks: { anywhere: MARKS, first: [] },
  grammar: (calls) => `"${WORD}" ${calls.json(schemaOfList(calls))}`,
  write: (calls, asText) => `${WORD}${writtenList(calls, asText)}`,
  // In the words of Firefunction's template, which asks for the same form; Phi-4-mini's own does not say how to call.
  describe: (tools) =>
    [
      "In addition to plain text responses, you can chose to call one or more of the provided functions.\n",
      "If you decide to call functions:",
      `  * prefix function calls with ${WORD} marker (no closing marker required)`,
      `  * all function calls should be generated in a single JSON list formatted as ${WORD}[{"name": [function name], "arguments": [function arguments as JSON]}, ...]\n`,
      `Available functions as JSON spec:\n${writtenTool(tools)}`,
    ].join("\n"),
  read: (text) =>
    readMarked(text, MARKS, (rest, mark) => {
      const bracket = mark.slice(WORD.length);
      const { calls, length } = readList(`${bracket}${rest}`, WORD, NEXT);
      return { calls, length: length - bracket.length };
    }),
};
