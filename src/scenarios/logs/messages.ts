/**
 * Messages and tools as logs have them, in the dialects of OpenAI's API, the AI SDK and OpenTelemetry's conventions for GenAI,
 * which differ in the names of a message's parts.
 */
import type { ChatMessage, ToolCall, ToolSchema } from "../../core/task/task.js";
import { parseJson, toJson } from "../../core/util/json.js";
import { type Fields, isFields, listOf } from "../../serve/openai/fields.js";

/** Why a record cannot be used; keys of the summary. */
export type UnusedReason =
  /** A line that is no JSON. */
  | "not_json"
  /** No form that is known. */
  | "unknown_form"
  /** A span or observation that is no call of a model. */
  | "no_model_call"
  /** The model did not answer: an error, or nothing recorded of it. */
  | "no_response"
  /** A picture, a sound or a file. */
  | "not_text"
  /** A role or a part that is unknown. */
  | "bad_message"
  /** Arguments that are no JSON object, or a call without a name. */
  | "bad_tool_call"
  /** A result of a call that is not in the conversation. */
  | "unmatched_result"
  /** A turn that its author excludes from learning (`weight` 0): trajectories are imitated as a whole. */
  | "excluded_turn"
  /** Nobody asks anything. */
  | "no_question"
  /** The whole conversation occurred before. */
  | "repeated";

/** A record that cannot be used. */
export class Unused extends Error {
  constructor(readonly reason: UnusedReason) {
    super(reason);
  }
}

/** JSON that may stand in a text, as attributes and exports have it. */
export function opened(value: unknown): unknown {
  if (typeof value !== "string" || !/^\s*[[{"]/.test(value)) return value;
  try {
    return parseJson(value);
  } catch {
    return value;
  }
}

const textOf = (value: unknown) => (typeof value === "string" ? value : value === undefined ? "" : toJson(value));

function argumentsOf(value: unknown): Record<string, unknown> {
  const args = value === undefined || value === null || value === "" ? {} : opened(value);
  if (!isFields(args)) throw new Unused("bad_tool_call");
  return { ...args };
}

interface Call extends ToolCall {
  readonly callId: string | undefined;
}

const callOf = (name: unknown, args: unknown, id: unknown): Call => {
  if (typeof name !== "string" || name === "") throw new Unused("bad_tool_call");
  return { name, arguments: argumentsOf(args), callId: typeof id === "string" ? id : undefined };
};

/** A message's parts, sorted. */
interface Parts {
  text: string;
  readonly calls: Call[];
  readonly results: { readonly id: unknown; readonly name: unknown; readonly content: string }[];
}

/** The output of a tool in the AI SDK: `{type: "text", value}`, `{type: "json", value}`. */
const outputOf = (value: unknown) =>
  isFields(value) && typeof value.type === "string" && "value" in value ? textOf(value.value) : textOf(value);

function addPart(parts: Parts, part: unknown): void {
  if (typeof part === "string") {
    parts.text += part;
    return;
  }
  if (!isFields(part)) throw new Unused("bad_message");
  const { type } = part;
  if (type === "text" || type === "input_text" || type === "output_text" || type === "refusal") {
    parts.text += textOf(part.text ?? part.content ?? part.refusal);
  } else if (type === "tool-call" || type === "tool_call") {
    parts.calls.push(
      callOf(part.toolName ?? part.name, part.input ?? part.args ?? part.arguments, part.toolCallId ?? part.id),
    );
  } else if (type === "tool-result" || type === "tool_call_response") {
    const content = outputOf(part.output ?? part.result ?? part.response);
    parts.results.push({ id: part.toolCallId ?? part.id, name: part.toolName, content });
  } else if (type === "reasoning" || type === "thinking") {
    // What a model thought is in no prompt of a later turn.
  } else if (
    ["image", "image_url", "input_image", "file", "audio", "input_audio", "blob", "uri"].includes(String(type))
  ) {
    throw new Unused("not_text");
  } else throw new Unused("bad_message");
}

function partsOf(message: Fields): Parts {
  const parts: Parts = { text: "", calls: [], results: [] };
  const content = message.parts ?? message.content;
  for (const part of listOf(content)) addPart(parts, part);
  if (!Array.isArray(content) && content !== null && content !== undefined) parts.text = textOf(content);
  for (const call of listOf(message.tool_calls)) {
    if (!isFields(call)) throw new Unused("bad_tool_call");
    const named = isFields(call.function) ? call.function : call;
    parts.calls.push(callOf(named.name, named.arguments ?? named.args, call.id));
  }
  if (message.function_call) throw new Unused("bad_tool_call");
  return parts;
}

/**
 * The messages of a conversation in hone's form. Ids of calls are used to name results, then left out.
 * @throws Unused
 */
export function messagesOf(given: unknown): ChatMessage[] {
  if (!Array.isArray(given)) throw new Unused("unknown_form");
  const names = new Map<string, string>();
  const open: string[] = [];
  const resultOf = (id: unknown, name: unknown, content: string): ChatMessage => {
    const known = typeof id === "string" ? names.get(id) : open.shift();
    const called = known ?? (typeof name === "string" ? name : undefined);
    if (called === undefined || (typeof id === "string" && known === undefined)) throw new Unused("unmatched_result");
    return { role: "tool", name: called, content };
  };
  return given.flatMap((message): ChatMessage[] => {
    if (!isFields(message)) throw new Unused("bad_message");
    const { text, calls, results } = partsOf(message);
    const role = message.role === "developer" ? "system" : message.role === "model" ? "assistant" : message.role;
    if (role === "system") return [{ role, content: text }];
    // Results may stand in a message of the user.
    const answered = results.map(({ id, name, content }) => resultOf(id, name, content));
    if (role === "user") return text === "" && answered.length > 0 ? answered : [...answered, { role, content: text }];
    if (role === "tool") {
      return results.length > 0 ? answered : [resultOf(message.tool_call_id ?? message.toolCallId, message.name, text)];
    }
    if (role !== "assistant") throw new Unused("bad_message");
    for (const { name, callId } of calls) {
      if (callId === undefined) open.push(name);
      else names.set(callId, name);
    }
    const written = calls.map(({ name, arguments: args }) => ({ name, arguments: args }));
    return [{ role, content: text, ...(written.length > 0 ? { tool_calls: written } : {}) }];
  });
}

/** Tools in any of the dialects; undefined entries are those of no function (a provider's own). */
export function toolsOf(given: unknown): ToolSchema[] {
  const list = opened(given);
  if (!Array.isArray(list)) return [];
  return list.flatMap((one): ToolSchema[] => {
    const tool = opened(one);
    if (!isFields(tool)) return [];
    const named = isFields(tool.function) ? tool.function : tool;
    if (typeof named.name !== "string") return [];
    const parameters = opened(named.parameters ?? named.inputSchema ?? named.input_schema ?? {});
    const { $schema: _, ...schema } = isFields(parameters) ? parameters : {};
    return [
      {
        type: "function",
        function: { name: named.name, description: textOf(named.description ?? ""), parameters: schema },
      },
    ];
  });
}
