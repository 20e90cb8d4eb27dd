/**
 * Llama 3's JSON calls: `{"name": ..., "parameters": {...}}`, after `<|python_tag|>` or without it, several parted by
 * `;`, text around them. Llama also writes "arguments" where its prompt does, so both names are read.
 *
 * Such a call has no mark but its form, and a brace in plain text is no call. One begins after `<|python_tag|>`, at a
 * turn's first character when that is `{`, after the `;` behind another call, and at every `{"name":`.
 */

import type { ToolFormat, WrittenCall } from "../../core/rollout/conversation.js";
import { jsonEnd, malformed, readCall, schemaOfCall, writtenCall, writtenTool } from "./format.js";

const TAG = "<|python_tag|>";
const BEGIN = /<\|python_tag\|>\s*|\{(?=\s*"name"\s*:)/g;
const FIRST = /^\s*(?=\{)/;
const NEXT = /\s*;\s*(?=\{)/y;

function callAt(text: string, from: number): { call: WrittenCall; end: number } {
  const end = text[from] === "{" ? jsonEnd(text, from) : -1;
  if (end >= 0) return { call: readCall(text.slice(from, end), ["parameters", "arguments"]), end };
  const reason = text[from] === "{" ? "the tool call's JSON does not end" : `no JSON object follows ${TAG}`;
  return { call: malformed(text.slice(from), reason), end: text.length };
}

export const llama3: ToolFormat = {
  name: "llama3",
  ends: ["<|eom_id|>"],
  frames: [TAG],
  begins: [TAG, "{"],
  marks: { anywhere: [TAG, '{ "name" :'], first: ["{"] },
  grammar({ tools, many, sample, json }) {
    const call = json(schemaOfCall(tools, sample.includes('"arguments"') ? "arguments" : "parameters"));
    return `("${TAG}" space)? ${call}${many ? ` (space ";" space ${call})*` : ""}`;
  },
  write: (calls, asText) => calls.map((call) => asText(writtenCall(call, "parameters"))).join("; "),
  // The text of Llama 3.1's template, with tools in the system message.
  describe: (tools) =>
    [
      "You have access to the following functions. To call a function, please respond with JSON for a function call.",
      'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.',
      `Do not use variables.\n\n${tools.map((tool) => writtenTool(tool, 4)).join("\n\n")}`,
    ].join(""),
  read(text) {
    const calls: WrittenCall[] = [];
    let content = "";
    let at = 0;
    /** The position where a call must begin, when that is known. */
    let begins = FIRST.exec(text)?.[0].length;
    for (;;) {
      let from = begins;
      if (from === undefined) {
        BEGIN.lastIndex = at;
        const found = BEGIN.exec(text);
        if (!found) break;
        content += text.slice(at, found.index);
        at = found.index;
        from = found[0].startsWith(TAG) ? BEGIN.lastIndex : found.index;
      }
      const { call, end } = callAt(text, from);
      calls.push(call);
      if (call.kind === "malformed") content += text.slice(at, end);
      NEXT.lastIndex = end;
      const next = NEXT.test(text);
      at = next ? NEXT.lastIndex : end;
      begins = next ? at : undefined;
    }
    return { content: (content + text.slice(at)).trim(), calls };
  },
};
