/**
 * Hermes, Qwen2.5, Qwen3: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, several in a turn, text around
 * them.
 */
import { malformed, readCall, type ToolFormat, type WrittenCall } from "./format.js";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

export const hermes: ToolFormat = {
  name: "hermes",
  ends: [],
  read(text) {
    const calls: WrittenCall[] = [];
    let content = "";
    let at = 0;
    for (;;) {
      const open = text.indexOf(OPEN, at);
      if (open < 0) break;
      content += text.slice(at, open);
      const close = text.indexOf(CLOSE, open + OPEN.length);
      const body = text.slice(open + OPEN.length, close < 0 ? undefined : close).trim();
      const call = close < 0 ? malformed(body, `the tool call has no ${CLOSE}`) : readCall(body, ["arguments"]);
      calls.push(call);
      at = close < 0 ? text.length : close + CLOSE.length;
      if (call.kind === "malformed") content += text.slice(open, at);
    }
    return { content: (content + text.slice(at)).trim(), calls };
  },
};
