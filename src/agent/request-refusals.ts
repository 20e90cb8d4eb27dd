/** Calls of an agent's model that cannot run, by the tools of its request. */
import { problemByRequest } from "../chat/json-schema.js";
import { badArguments, type Refusal, unknownTool } from "../core/rollout/refusals.js";
import type { ToolCall, ToolSchema } from "../core/task/task.js";

/** Judges a call by the tools of the request that it answers, as their schemas are there; undefined: it can run. */
export function refusalByRequest(
  { name, arguments: args }: Pick<ToolCall, "name" | "arguments">,
  tools: readonly ToolSchema[],
): Refusal | undefined {
  const tool = tools.find((one) => one.function.name === name);
  if (!tool)
    return unknownTool(
      name,
      tools.map((one) => one.function.name),
    );
  const { parameters } = tool.function;
  const problem = problemByRequest(parameters, args);
  return problem === undefined
    ? undefined
    : badArguments(name, problem, Object.keys((parameters.properties ?? {}) as object));
}
