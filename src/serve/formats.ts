/**
 * Response formats that a client requests and the engine does not enforce: the answer states whether it has the format.
 */
import { jsonSchema } from "../tasks/index.js";
import { badRequest } from "./errors.js";
import type { ChatRequest } from "./requests.js";

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
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return "it is not JSON";
    }
    if (typeof value !== "object" || value === null) return "it is not a JSON object";
    return problem(value);
  };
}
