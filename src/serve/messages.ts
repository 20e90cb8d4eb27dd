/**
 * Converts a client's messages and tools for chat templates, and computes the keys by which conversations are found
 * again.
 */
import { hash } from "node:crypto";
import { isObject, parsed } from "../chat/formats/format.js";
import type { ChatMessage, ToolCall, ToolSchema } from "../core/task/task.js";
import { toJson } from "../core/util/json.js";
import { badRequest } from "./errors.js";
import { isDeep } from "./exchange.js";
import type { ApiMessage, ApiTool } from "./requests.js";

/** Maximum length of all tools' schemas as JSON; more would not fit any context. */
const MOST_SCHEMA = 256 * 1024;
const MOST_DEPTH = 64;

/** @throws ApiError (400) for duplicate names, and for schemas that are too deep or too large */
export function toolsOf(tools: readonly ApiTool[]): readonly ToolSchema[] {
  if (toJson(tools).length > MOST_SCHEMA) {
    throw badRequest(`'tools' has more than ${MOST_SCHEMA} characters`, "tools", "invalid_function_parameters");
  }
  const names = new Set<string>();
  return tools.map(({ function: { name, description, parameters } }, index) => {
    const param = `tools.${index}.function`;
    if (names.has(name)) throw badRequest(`two tools are called ${name}`, `${param}.name`, "invalid_value");
    names.add(name);
    if (isDeep(parameters, MOST_DEPTH)) {
      const why = `Invalid schema for function '${name}': it is nested more than ${MOST_DEPTH} levels deep`;
      throw badRequest(why, `${param}.parameters`, "invalid_function_parameters");
    }
    const schema = parameters ?? { type: "object", properties: {} };
    return { type: "function", function: { name, description: description ?? "", parameters: schema } };
  });
}

function textOf(content: ApiMessage["content"]): string {
  if (content == null) return "";
  return typeof content === "string" ? content : content.map(({ text }) => text).join("");
}

function callOf(call: { id: string; function: { name: string; arguments: string } }, param: string): ToolCall {
  const { id, function: about } = call;
  const args = about.arguments === "" ? {} : parsed(about.arguments);
  if (!isObject(args) || isDeep(args, MOST_DEPTH)) {
    throw badRequest("the arguments of a call must be a JSON object", param, "invalid_value");
  }
  return { id, name: about.name, arguments: args };
}

/** @throws ApiError (400) for a tool message without a matching call in the turn before */
export function messagesOf(messages: readonly ApiMessage[]): ChatMessage[] {
  let open = new Map<string, string>();
  return messages.map((message, index): ChatMessage => {
    const content = textOf(message.content);
    const param = `messages.${index}`;
    if (message.role === "tool") {
      const name = open.get(message.tool_call_id);
      if (name === undefined) {
        const why = `no tool call of the assistant's message before has the id '${message.tool_call_id}', or it was answered`;
        throw badRequest(why, `${param}.tool_call_id`, "invalid_value");
      }
      open.delete(message.tool_call_id);
      return { role: "tool", name, content, id: message.tool_call_id };
    }
    open = new Map();
    if (message.role === "developer") return { role: "system", content };
    if (message.role !== "assistant") return { role: message.role, content };
    const calls = (message.tool_calls ?? []).map((call, at) =>
      callOf(call, `${param}.tool_calls.${at}.function.arguments`),
    );
    for (const { id, name } of calls) open.set(id as string, name);
    return calls.length > 0 ? { role: "assistant", content, tool_calls: calls } : { role: "assistant", content };
  });
}

function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(sorted);
  const entries = Object.entries(value).map(([key, item]) => [key, sorted(item)] as const);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** JSON with sorted keys, since clients re-serialise arguments. */
export function canonical(value: unknown): string {
  return toJson(sorted(value));
}

/** Parts are keys and JSON, which have no line breaks. */
const keyOf = (...parts: string[]) => hash("sha256", parts.join("\n"), "base64");

/** Canonical form of a message: variations that do not change its meaning are removed. */
function meaning(message: ChatMessage): string {
  if (message.role === "tool") return JSON.stringify([message.role, message.id, message.content]);
  if (message.role !== "assistant") return JSON.stringify([message.role, message.content]);
  const calls = (message.tool_calls ?? []).map(({ id, name, arguments: args }) => [id, name, args]);
  return canonical([message.role, message.content.trim(), calls]);
}

/** Key of a conversation without messages. Conversations of different `scope` have different keys. */
export const firstKey = (tools: readonly ToolSchema[], scope: string) => keyOf(scope, toJson(tools));

/** Key of a conversation extended by one message. */
export const nextKey = (key: string, message: ChatMessage) => keyOf(key, meaning(message));
