/**
 * Tool calls in the Hermes form: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, several in a turn, text
 * around them. Reads what the model wrote and never repairs it: what is malformed is named, and the model told.
 */
import type { ToolCall } from "../tasks/index.js";

export type WrittenCall =
  | { readonly kind: "call"; readonly call: ToolCall }
  | { readonly kind: "malformed"; readonly text: string; readonly reason: string };

export interface WrittenTurn {
  /** The text outside well-formed calls; malformed ones stay in it as they were written. */
  content: string;
  calls: WrittenCall[];
}

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

/** A template that speaks this form names its tags. */
export function usesHermesCalls(template: string): boolean {
  return template.includes(OPEN);
}

function readCall(text: string): WrittenCall {
  const malformed = (reason: string): WrittenCall => ({ kind: "malformed", text, reason });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The parser's own message quotes the model's text at length; the model is better served by the rule.
    return malformed("the tool call is not valid JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return malformed("the tool call is not a JSON object");
  }
  const { name, arguments: args } = value as Record<string, unknown>;
  if (typeof name !== "string") return malformed('the tool call has no "name"');
  if (typeof args !== "object" || args === null || Array.isArray(args)) {
    return malformed('the tool call has no "arguments" object');
  }
  return { kind: "call", call: { name, arguments: args as Record<string, unknown> } };
}

/** Splits an assistant's text into its calls and the rest. Never throws. */
export function readToolCalls(text: string): WrittenTurn {
  const calls: WrittenCall[] = [];
  let content = "";
  let at = 0;
  for (;;) {
    const open = text.indexOf(OPEN, at);
    if (open < 0) break;
    content += text.slice(at, open);
    const close = text.indexOf(CLOSE, open + OPEN.length);
    const body = text.slice(open + OPEN.length, close < 0 ? undefined : close).trim();
    const call: WrittenCall =
      close < 0 ? { kind: "malformed", text: body, reason: "the tool call has no </tool_call>" } : readCall(body);
    calls.push(call);
    at = close < 0 ? text.length : close + CLOSE.length;
    if (call.kind === "malformed") content += text.slice(open, at);
  }
  return { content: (content + text.slice(at)).trim(), calls };
}
