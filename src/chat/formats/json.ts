/**
 * Calls as bare JSON, as models write them whose templates ask for tags that they do not keep to (Qwen2.5-Coder): an object with
 * the name of a tool and its arguments, or a list of such, alone or several, in a code fence or without one, text around them.
 * Nothing but the form of such an object marks it, so one is a call only where it names a tool that there is; all other JSON is
 * text, also where a call stands somewhere within it.
 *
 * Arguments are read by either name that templates give them, and as an object or as JSON's text of one, as APIs have them.
 */

import type { CallableTool, ToolFormat, WrittenCall } from "../../core/rollout/conversation.js";
import { toJson } from "../../core/util/json.js";
import {
  callOf,
  isObject,
  jsonEnd,
  malformed,
  parsed,
  schemaOfCall,
  schemaOfList,
  writtenCall,
  writtenTool,
} from "./format.js";

const FENCE = "```";
const FENCES = ["", FENCE, `${FENCE}json`];
const KEYS = ["arguments", "parameters"];
/** Beginnings of calls in which the name does not come first. */
const NAMELESS = [...KEYS.map((key) => `{ "${key}" :`), '{ "type" : "function"'];
const OPENED = /```[\w+#.-]*\s*$/;
const CLOSED = /^\s*```(?!\w)/;
/** What may stand between two calls and says nothing. */
const BETWEEN = /^\s*(?:[,;]\s*)?$/;

/** Where calls begin with the tool's name; the last two are no JSON, and the model is told so. */
const named = (tool: string) => [`{ "name" : ${JSON.stringify(tool)}`, `{ 'name' : '${tool}'`, `{ name : "${tool}"`];

/** Matches any of some marks, in which a space is white space or none. */
const anyMark = (marks: readonly string[]) =>
  marks.map((mark) => mark.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll(" ", "\\s*")).join("|");

interface Span {
  readonly start: number;
  readonly end: number;
}

/** What brackets enclose, without those within others, in their order. Quotes are JSON's, and outside of brackets a text's own. */
function bracketed(text: string): Span[] {
  const opened: number[] = [];
  const closed: Span[] = [];
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const character = text[i] as string;
    if (quoted) {
      if (character === "\\") i++;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = opened.length > 0;
    else if (character === "{" || character === "[") opened.push(i);
    else if (character === "}" || character === "]") {
      const start = opened.pop();
      if (start === undefined) continue;
      while (closed.length > 0 && (closed.at(-1) as Span).start > start) closed.pop();
      closed.push({ start, end: i + 1 });
    }
  }
  return closed;
}

/** A call whose arguments may be the text of an object. */
function callFrom(value: unknown, text: string): WrittenCall {
  const key = isObject(value) ? KEYS.find((one) => typeof value[one] === "string") : undefined;
  if (!isObject(value) || key === undefined) return callOf(value, text, KEYS);
  return callOf({ ...value, [key]: parsed(value[key] as string) ?? null }, text, KEYS);
}

/** The calls of a JSON value; none where it names no tool. */
function callsOf(value: unknown, text: string, names: ReadonlySet<unknown>): WrittenCall[] {
  const isNamed = (one: unknown) => isObject(one) && names.has(one.name);
  if (Array.isArray(value)) return value.some(isNamed) ? value.map((one) => callFrom(one, toJson(one))) : [];
  return isNamed(value) ? [callFrom(value, text)] : [];
}

interface Found extends Span {
  readonly calls: readonly WrittenCall[];
}

/** JSON that begins as calls do with their places, in order; some have none. */
function* found(text: string, tools: readonly CallableTool[]): Generator<Found> {
  const names = new Set<unknown>(tools.map(({ name }) => name));
  const heads = tools.flatMap(({ name }) => named(name));
  const begin = new RegExp(`(?<list>\\[\\s*)?(?:(?<named>${anyMark(heads)})|${anyMark(NAMELESS)})`, "g");
  const groups = begin.test(text) ? bracketed(text) : [];
  let next = 0;
  let at = 0;
  for (;;) {
    begin.lastIndex = at;
    const match = begin.exec(text);
    if (!match) return;
    const { index } = match;
    // Also those that what was read before cuts in two.
    while (next < groups.length && ((groups[next] as Span).end <= index || (groups[next] as Span).start < at)) next++;
    const group = (groups[next]?.start ?? Number.POSITIVE_INFINITY) <= index ? groups[next++] : undefined;
    const written = group && text.slice(group.start, group.end);
    const value = written === undefined ? undefined : parsed(written);
    if (group && written !== undefined && value !== undefined) {
      // No calls are looked for within what is JSON as a whole.
      yield { ...group, calls: unlessStray(text, group, callsOf(value, written, names)) };
      at = group.end;
    } else if (match.groups?.named === undefined) {
      at = begin.lastIndex;
    } else {
      const own = ownCall(text, index, match.groups.list !== undefined, names);
      yield own;
      at = own.end;
    }
  }
}

/** A call, or a list of such, that stands in no JSON. */
function ownCall(text: string, start: number, isList: boolean, names: ReadonlySet<unknown>): Found {
  const end = jsonEnd(text, start);
  const wrong = (end: number, reason: string) => ({ start, end, calls: [malformed(text.slice(start, end), reason)] });
  if (end < 0) {
    return wrong(text.length, isList ? "the list of tool calls does not end" : "the tool call's JSON does not end");
  }
  const written = text.slice(start, end);
  const value = parsed(written);
  if (value === undefined) {
    return wrong(end, isList ? "the list of tool calls is not valid JSON" : "the tool call is not valid JSON");
  }
  return { start, end, calls: unlessStray(text, { start, end }, callsOf(value, written, names)) };
}

/** White space that a look around a call passes. */
const LOOK = 256;

/** Calls, unless they stand in JSON that is not whole. */
function unlessStray(text: string, { start, end }: Span, calls: readonly WrittenCall[]): readonly WrittenCall[] {
  if (calls.length === 0) return calls;
  const isWithin = /(?:[{[]|"\s*:)\s*$/.test(text.slice(Math.max(0, start - LOOK), start));
  const [, surplus] = /^\s*([}\]])/.exec(text.slice(end, end + LOOK)) ?? [];
  if (!isWithin && surplus === undefined) return calls;
  const reason = isWithin
    ? "the JSON around the tool call is not valid"
    : `the tool call is followed by a ${surplus} too many`;
  return [malformed(text.slice(start, end), reason)];
}

/** The text around calls, without fences in which nothing else stands, and without what parts calls. @param texts one more than calls */
function around(texts: readonly string[]): string {
  const left = [...texts];
  const last = left.length - 1;
  for (let i = 0; i < last; i++) {
    const isFenced = OPENED.test(left[i] as string);
    const first = i;
    while (i + 1 < last && BETWEEN.test(left[i + 1] as string)) left[++i] = "\n";
    if (!isFenced || !CLOSED.test(left[i + 1] as string)) continue;
    left[first] = (left[first] as string).replace(OPENED, "");
    left[i + 1] = (left[i + 1] as string).replace(CLOSED, "");
  }
  return left.join("").trim();
}

export const json: ToolFormat = {
  name: "json",
  ends: [],
  frames: [],
  begins: ["{", "[", FENCE],
  marks: { anywhere: NAMELESS, first: [] },
  marksOf: (tool) => [
    ...named(tool),
    ...FENCES.flatMap((fence) => ["", "[ "].map((list) => `${fence} ${list}${named(tool)[0]}`)).slice(1),
  ],
  grammar(calls) {
    const call = calls.json(schemaOfCall(calls.tools, "arguments"));
    const several = calls.many ? `${call} (space ${call})*` : call;
    const all = `(${several} | ${calls.json(schemaOfList(calls))})`;
    return `(${all} | "${FENCE}" "json"? space ${all} space "${FENCE}")`;
  },
  write: (calls, asText) => calls.map((call) => asText(writtenCall(call, "arguments"))).join("\n"),
  describe: (tools) =>
    [
      "You have access to the following tools:\n",
      ...tools.map((tool) => writtenTool(tool)),
      "\nTo call a tool, write a JSON object with its name and arguments, and nothing else; several calls are several objects, each on a line:",
      '{"name": <tool-name>, "arguments": <args-json-object>}',
    ].join("\n"),
  read(text, tools) {
    if (tools.length === 0) return { content: text.trim(), calls: [] };
    const calls: WrittenCall[] = [];
    const texts = [""];
    let at = 0;
    for (const { start, end, calls: some } of found(text, tools)) {
      if (some.length === 0) continue;
      const wrong = some.some(({ kind }) => kind === "malformed");
      texts[texts.length - 1] += text.slice(at, wrong ? end : start);
      if (!wrong) texts.push("");
      calls.push(...some);
      at = end;
    }
    texts[texts.length - 1] += text.slice(at);
    return { content: around(texts), calls };
  },
};
