/**
 * Forms that a client requests and the engine does not enforce, those of answers and of calls: the answer states whether it
 * has the form.
 */

import { jsonSchema } from "../chat/json-schema.js";
import type { ReadTurn } from "../core/rollout/reading.js";
import { badRequest } from "./errors.js";
import { parsed } from "./openai/fields.js";
import { type ChatRequest, demandedBy, isForced } from "./requests.js";

/** The first deviation of an answer, in one line; undefined without one. */
export type Format = (text: string) => string | undefined;

/** @throws ApiError (400) for a schema that cannot be used */
export function formatOf(asked: ChatRequest["response_format"]): Format | undefined {
  if (asked == null || asked.type === "text") return undefined;
  const schema = asked.type === "json_schema" ? asked.json_schema.schema : null;
  let problem: (value: unknown) => string | undefined = () => undefined;
  try {
    if (schema) problem = jsonSchema(schema).problem;
  } catch (error) {
    const why = (error as Error).message.replace("a tool's JSON Schema", "the schema");
    throw badRequest(`Invalid schema for response_format: ${why}`, "response_format", "invalid_value");
  }
  return (text) => {
    const value = parsed(text);
    if (value === undefined) return "it is not JSON";
    if (typeof value !== "object" || value === null) return "it is not a JSON object";
    return problem(value);
  };
}

type AskedCalls = Pick<ChatRequest, "tools" | "tool_choice" | "parallel_tool_calls">;

/** The first deviation of a turn's calls, in one line; undefined without one. */
export type CallForm = (calls: ReadTurn["calls"]) => string | undefined;

/** What a request demands of calls; undefined for nothing. */
export function callFormOf(asked: AskedCalls): CallForm | undefined {
  const { tools, tool_choice: choice, parallel_tool_calls: parallel } = asked;
  const named = demandedBy(asked);
  const forced = isForced(asked);
  const strict = new Map<string, (args: unknown) => string | undefined>();
  for (const { function: about } of tools ?? []) {
    if (!about.strict || choice === "none") continue;
    try {
      strict.set(about.name, jsonSchema(about.parameters ?? { type: "object", properties: {} }).problem);
    } catch {
      // A schema that no validator takes: calls of the tool are not checked.
    }
  }
  if (!forced && parallel !== false && strict.size === 0) return undefined;
  return (calls) => {
    if (forced && calls.length === 0) return "there is no call, and tool_choice demands one";
    if (parallel === false && calls.length > 1)
      return `there are ${calls.length} calls, and parallel_tool_calls is false`;
    for (const written of calls) {
      if (written.kind === "malformed") return written.reason;
      const { name, arguments: args } = written.call;
      if (named !== undefined && name !== named) return `the call is of ${name}, and tool_choice demands ${named}`;
      const problem = strict.get(name)?.(args);
      if (problem !== undefined) return `${name}: ${problem}`;
    }
    return undefined;
  };
}
