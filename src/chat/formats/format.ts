/** What tool-call formats share. Each is one file; formats.ts lists them. */

import type { CallableTool, WrittenCall, WrittenCalls, WrittenTurn } from "../../core/rollout/conversation.js";
import type { ToolCall } from "../../core/task/task.js";
import { parseJson, toJson } from "../../core/util/json.js";
import { jsonText } from "../jinja/json.js";
import { asValue } from "../jinja/values.js";

/** A call as JSON, spaced as templates write it. @param key of its arguments */
export const writtenCall = ({ name, arguments: args }: ToolCall, key: string): string =>
  jsonText(asValue({ name, [key]: args }));

/** A tool as JSON, spaced as templates write it. @param indent of a level, in spaces; without it all is in one line */
export const writtenTool = (tool: unknown, indent?: number): string =>
  jsonText(asValue(tool), { indent: indent === undefined ? null : " ".repeat(indent) });

export const malformed = (text: string, reason: string): WrittenCall => ({ kind: "malformed", text, reason });

/** Schema of a call as a JSON object. @param key its arguments' */
export const schemaOfCall = (tools: readonly CallableTool[], key: string): object => ({
  oneOf: tools.map(({ name, parameters }) => ({
    type: "object",
    properties: { name: { const: name }, [key]: parameters },
    required: ["name", key],
  })),
});

/** Index after the JSON object or list that opens at `from`; -1 when it does not end. */
export function jsonEnd(text: string, from: number): number {
  let depth = 0;
  let quoted = false;
  for (let i = from; i < text.length; i++) {
    const character = text[i];
    if (quoted) {
      if (character === "\\") i++;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = true;
    else if (character === "{" || character === "[") depth++;
    else if ((character === "}" || character === "]") && --depth === 0) return i + 1;
  }
  return -1;
}

/** The value of a text; undefined where it is no JSON, which the caller words for the model. */
export function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    // The parser's own message quotes the model's text at length; a short rule helps the model more.
    return undefined;
  }
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * The call that a JSON value represents.
 *
 * @param text as written
 * @param keys accepted names of the arguments; the first is the one used in error messages
 */
export function callOf(value: unknown, text: string, keys: readonly string[]): WrittenCall {
  if (!isObject(value)) return malformed(text, "the tool call is not a JSON object");
  const { name, id } = value;
  if (typeof name !== "string") return malformed(text, 'the tool call has no "name"');
  const given = keys.filter((key) => value[key] !== undefined);
  if (given.length > 1) return malformed(text, `the tool call has both "${given.join('" and "')}"`);
  const args = value[given[0] ?? ""];
  if (!isObject(args)) return malformed(text, `the tool call has no "${keys[0]}" object`);
  return { kind: "call", call: { name, arguments: args, ...(typeof id === "string" ? { id } : {}) } };
}

/** Calls at the beginning of a text, and their length in characters. */
export interface ReadCalls {
  readonly calls: readonly WrittenCall[];
  readonly length: number;
}

/** Any of some marks, in one pass that ends at the first of them: a model may write one ten thousand times, and never the other. */
const anyMark = (marks: readonly string[]) =>
  new RegExp(marks.map((mark) => mark.replace(/[|[\]]/g, "\\$&")).join("|"), "g");

/** {@link readBegun} with calls that begin after marks. */
export const readMarked = (
  text: string,
  marks: readonly string[],
  callsBehind: (rest: string, mark: string) => ReadCalls,
): WrittenTurn => readBegun(text, anyMark(marks), (rest, [mark]) => callsBehind(rest, mark));

/**
 * Reads a turn whose calls begin after what a pattern matches. A malformed call stays in the text with that, and with those
 * beside it.
 *
 * @param begin with the flag g
 * @param callsBehind reads the calls at the beginning of the text after a match
 */
export function readBegun(
  text: string,
  begin: RegExp,
  callsBehind: (rest: string, found: RegExpExecArray) => ReadCalls,
): WrittenTurn {
  const calls: WrittenCall[] = [];
  let content = "";
  let at = 0;
  for (;;) {
    begin.lastIndex = at;
    const found = begin.exec(text);
    if (!found) break;
    content += text.slice(at, found.index);
    const behind = found.index + found[0].length;
    const read = callsBehind(text.slice(behind), found);
    calls.push(...read.calls);
    at = behind + read.length;
    if (read.calls.some(({ kind }) => kind === "malformed")) content += text.slice(found.index, at);
  }
  return { content: (content + text.slice(at)).trim(), calls };
}

/** A malformed call whose end is unknown: it extends to the next beginning of one. */
export function wrongUpTo(text: string, next: RegExp, reason: string): ReadCalls {
  const at = text.search(next);
  const length = at < 0 ? text.length : at;
  return { calls: [malformed(text.slice(0, length), reason)], length };
}

/**
 * The calls of the JSON list at the beginning of a text, behind white space.
 *
 * @param mark before the text, for the message to the model; "" where there is none
 * @param next the beginning of other calls
 */
export function readList(text: string, mark: string, next: RegExp): ReadCalls {
  const from = text.length - text.trimStart().length;
  const wrong = (reason: string) => wrongUpTo(text, next, reason);
  if (!/^[{[]/.test(text.slice(from, from + 1))) return wrong(`no JSON list of tool calls follows ${mark}`);
  const end = jsonEnd(text, from);
  if (end < 0) return wrong("the list of tool calls does not end");
  const value = parsed(text.slice(from, end));
  if (value === undefined) return wrong("the list of tool calls is not valid JSON");
  if (!Array.isArray(value)) return wrong(`no JSON list of tool calls follows ${mark}`);
  if (value.length === 0) return wrong("the list of tool calls is empty");
  return { calls: value.map((one) => callOf(one, toJson(one), ["arguments"])), length: end };
}

/** Schema of a JSON list of calls. */
export const schemaOfList = ({ tools, many }: WrittenCalls): object => ({
  type: "array",
  items: schemaOfCall(tools, "arguments"),
  minItems: 1,
  ...(many ? {} : { maxItems: 1 }),
});

/** A JSON list of calls, as {@link ToolFormat.write} does. */
export const writtenList = (calls: readonly ToolCall[], asText: (json: string) => string): string =>
  `[${calls.map((call) => asText(writtenCall(call, "arguments"))).join(", ")}]`;

/** As {@link callOf}, for a text that should be JSON. */
export function readCall(text: string, keys: readonly string[]): WrittenCall {
  const value = parsed(text);
  return value === undefined ? malformed(text, "the tool call is not valid JSON") : callOf(value, text, keys);
}
