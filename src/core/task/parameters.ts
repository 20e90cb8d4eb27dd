/**
 * Parameters of a tool: a zod object, or a JSON Schema for tools from elsewhere. An integer beyond 2^53 - 1, which a number
 * would round, is a bigint: `z.bigint()` and JSON Schemas take it, `z.number()` and `z.int()` refuse the call.
 */
import { z } from "zod";
import { valueAt } from "../util/json.js";

/** Arguments described by a JSON Schema; `jsonSchema` (chat/json-schema.ts) makes one. */
export interface JsonSchemaParameters {
  readonly jsonSchema: Readonly<Record<string, unknown>>;
  /** Patterns that arguments are not held to, each in one line with the reason. */
  readonly unchecked: readonly string[];
  /** The error of the arguments, in one line; undefined if they are valid. */
  problem(args: unknown): string | undefined;
}

export type ToolParameters = z.ZodObject | JsonSchemaParameters;

/** The type of the arguments that `execute` gets. */
export type ArgumentsOf<P extends ToolParameters> = P extends z.ZodObject ? z.output<P> : Record<string, unknown>;

const isJsonSchema = (given: ToolParameters): given is JsonSchemaParameters => "jsonSchema" in Object(given);

/** A misspelt argument is refused, not dropped, so that the model can correct it. */
export function strictParameters<P extends ToolParameters>(parameters: P): P {
  if (parameters instanceof z.ZodObject) return parameters.strict() as P;
  if (isJsonSchema(parameters)) return parameters;
  throw new TypeError("a tool's parameters are a z.object of hone's own `z` (zod 4), or jsonSchema({...})");
}

/** A bigint is an integer to the model. @throws Error for types that JSON does not have */
const schemaOfZod = (parameters: z.ZodObject): Record<string, unknown> =>
  z.toJSONSchema(parameters, {
    io: "input",
    unrepresentable: ({ zodSchema }) => (zodSchema._zod.def.type === "bigint" ? { type: "integer" } : "throw"),
  });

const schemas = new WeakMap<ToolParameters, Record<string, unknown>>();

/** As a JSON Schema, without the line that names its draft. Computed once: every rollout has its tools' schemas. */
export function schemaOfParameters(parameters: ToolParameters): Record<string, unknown> {
  const known = schemas.get(parameters);
  if (known) return known;
  const { $schema: _, ...schema } = isJsonSchema(parameters) ? parameters.jsonSchema : schemaOfZod(parameters);
  schemas.set(parameters, schema);
  return schema;
}

type Issue = z.core.$ZodIssue;

/** The arguments with bigints in place of the whole numbers at which a schema wants them. */
function asBigints(args: Record<string, unknown>, issues: readonly Issue[]): Record<string, unknown> {
  const result = structuredClone(args);
  for (const issue of issues) {
    if (issue.code !== "invalid_type" || issue.expected !== "bigint") continue;
    const value = valueAt(args, issue.path);
    if (!Number.isSafeInteger(value)) continue;
    const holder = valueAt(result, issue.path.slice(0, -1)) as Record<PropertyKey, unknown>;
    holder[issue.path.at(-1) as PropertyKey] = BigInt(value as number);
  }
  return result;
}

function messageOfIssue(issue: Issue | undefined, args: Record<string, unknown>): string {
  if (issue?.code !== "invalid_type" || issue.expected !== "number") return issue?.message ?? "wrong arguments";
  const value = valueAt(args, issue.path);
  return typeof value === "bigint" ? `${value} is beyond ${Number.MAX_SAFE_INTEGER}, the limit here` : issue.message;
}

/** The parsed arguments, or the error. */
export function checkArguments(
  parameters: ToolParameters,
  args: Record<string, unknown>,
): { readonly args: Record<string, unknown> } | { readonly problem: string } {
  if (isJsonSchema(parameters)) {
    const problem = parameters.problem(args);
    return problem === undefined ? { args } : { problem };
  }
  const parsed = parameters.safeParse(args);
  if (parsed.success) return { args: parsed.data };
  const again = parameters.safeParse(asBigints(args, parsed.error.issues));
  if (again.success) return { args: again.data };
  const [issue] = again.error.issues;
  const where = issue?.path.join(".");
  return { problem: `${where ? `${where}: ` : ""}${messageOfIssue(issue, args)}` };
}

/** Names of the arguments, for a message to the model. */
export function parameterNames(parameters: ToolParameters): string[] {
  if (!isJsonSchema(parameters)) return Object.keys(parameters.shape);
  return Object.keys((parameters.jsonSchema.properties ?? {}) as object);
}
