/**
 * What an OpenEnv server says of its environment, and the tools that a model gets of it: one whose arguments are the
 * environment's action, or those of its MCP server, which are called through steps as well, since only steps have rewards.
 */
import type { LanguageModelV3FunctionTool } from "@ai-sdk/provider";
import { z } from "zod";
import { jsonSchema } from "../../chat/json-schema.js";
import { HoneError, messageOf, UsageError } from "../../core/util/errors.js";
import { parseJson, toJson } from "../../core/util/json.js";
import { textWithin } from "../../serve/openai/bounded.js";
import { callable } from "../mcp/catalogue.js";
import { type CallResult, resultText } from "../mcp/result.js";

type Json = Readonly<Record<string, unknown>>;

export interface EnvironmentTool {
  readonly schema: LanguageModelV3FunctionTool;
  /** The action of a call. */
  action(args: Json): Json;
}

/** The environment takes an action of another form than its schema says: the model may try again. */
export class InvalidAction extends HoneError {}

/** An environment, as its server describes it. */
export interface Surface {
  readonly description: string;
  readonly tools: readonly EnvironmentTool[];
}

const SECONDS = 20;
const MOST_BYTES = 16 * 1_048_576;
/** Characters of an observation that the model reads at most. */
const MOST_CHARACTERS = 8000;

const described = z.object({ action: z.record(z.string(), z.unknown()) });
const metadata = z.object({ name: z.string().default(""), description: z.string().default("") });
const listed = z.object({
  observation: z.object({
    tools: z.array(
      z.object({
        name: z.string(),
        description: z.string().default(""),
        input_schema: z.record(z.string(), z.unknown()),
      }),
    ),
  }),
});

/** @throws HoneError when the server is away, or answers in another form */
async function asked<T>(url: string, path: string, form: z.ZodType<T>, body?: object): Promise<T> {
  const refuse = (why: string, error?: unknown) => {
    throw new HoneError(`${url} is no OpenEnv server that can be used: ${why}`, { cause: error });
  };
  const sent = body && { method: "POST", headers: { "content-type": "application/json" }, body: toJson(body) };
  let status = 0;
  let text: string | undefined;
  try {
    const response = await fetch(`${url}/${path}`, { ...sent, signal: AbortSignal.timeout(1000 * SECONDS) });
    status = response.status;
    text = await textWithin(response, MOST_BYTES);
  } catch (error) {
    const why = messageOf((error as Error).cause ?? error);
    throw new HoneError(`the OpenEnv server at ${url} does not answer (${why}): start it, or give its address`, {
      cause: error,
    });
  }
  if (status !== 200) return refuse(`/${path} answers ${status}${text ? `, ${text.slice(0, 100)}` : ""}`);
  try {
    return form.parse(parseJson(text ?? ""));
  } catch (error) {
    const where = error instanceof z.ZodError ? error.issues[0]?.path.join(".") : "";
    return refuse(`the answer to /${path} has not the form of OpenEnv's${where ? ` (${where})` : ""}`, error);
  }
}

/** Actions that call the tools of an MCP server: the environment says so by the type of its actions. */
function callsTools(action: Json): boolean {
  const { type } = (action.properties ?? {}) as { type?: { const?: unknown; default?: unknown } };
  if (type?.const === "call_tool" || type?.default === "call_tool") return true;
  // The base class. An environment's own action may have the same name, but has fields.
  return action.title === "Action" && Object.keys(withoutMetadata(action).properties as object).length === 0;
}

/** "GuessNumberAction" is the tool `guess_number`. */
const toolNameOf = (title: unknown) =>
  callable(
    String(title ?? "")
      .replace(/(.)Action$/, "$1")
      .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
      .toLowerCase() || "act",
  );

/** `metadata` of every action is for programs. */
function withoutMetadata(action: Json): Json {
  const { metadata: _, ...properties } = (action.properties ?? {}) as Record<string, unknown>;
  return { ...action, properties };
}

/** @throws UsageError for a schema that no tool can have */
function toolOf(name: string, description: string, schema: Json, action: EnvironmentTool["action"]): EnvironmentTool {
  try {
    jsonSchema(schema);
  } catch (error) {
    throw new UsageError(`the OpenEnv environment's ${name} cannot be a tool: ${messageOf(error)}`);
  }
  return { schema: { type: "function", name, description, inputSchema: schema as object }, action };
}

/** @param url without a slash at the end */
export async function surfaceOf(url: string): Promise<Surface> {
  const { action } = await asked(url, "schema", described);
  const { description } = await asked(url, "metadata", metadata);
  if (!callsTools(action)) {
    const about = typeof action.description === "string" ? action.description : description;
    return { description, tools: [toolOf(toolNameOf(action.title), about, withoutMetadata(action), (args) => args)] };
  }
  const { observation } = await asked(url, "step", listed, { action: { type: "list_tools" } });
  const tools = observation.tools.map(({ name, description: about, input_schema: schema }) =>
    toolOf(callable(name), about, schema, (args) => ({ type: "call_tool", tool_name: name, arguments: args })),
  );
  const names = tools.map((tool) => tool.schema.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice) throw new UsageError(`the OpenEnv environment at ${url} has two tools that are called ${twice}`);
  if (tools.length === 0) throw new UsageError(`the OpenEnv environment at ${url} has no tools`);
  return { description, tools };
}

/**
 * An observation for the model: its one text as it is, otherwise its JSON; an order to begin where nothing is observed.
 *
 * @throws ToolError with the error of a call of an MCP tool
 */
export function observationText(observation: Json): string {
  const {
    tool_name: called,
    error,
    result,
  } = observation as {
    tool_name?: unknown;
    error?: { message?: string } | null;
    result?: CallResult & { structured_content?: unknown; is_error?: boolean };
  };
  if (typeof called === "string") {
    if (error) return read({ isError: true, content: textOf(error.message ?? "") });
    if (!Array.isArray(result?.content)) return read({ content: textOf(result ?? null) });
    const { content, structured_content: structuredContent, is_error: isError = result.isError ?? false } = result;
    return read({ content, structuredContent, isError });
  }
  const { metadata, ...fields } = observation;
  // Metadata is for programs; the resets of many environments with an MCP server have nothing else.
  const shown = Object.keys(fields).length > 0 ? fields : ((metadata ?? {}) as Json);
  const values = Object.values(shown);
  if (values.length === 0) return "Begin.";
  return read({ content: textOf(values.length === 1 && typeof values[0] === "string" ? values[0] : shown) });
}

const textOf = (value: unknown) => [{ type: "text", text: typeof value === "string" ? value : toJson(value) }];

const read = (result: CallResult) => resultText(result, MOST_CHARACTERS, () => undefined);
