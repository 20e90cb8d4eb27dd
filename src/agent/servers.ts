/**
 * The MCP servers that a task or `--mcp` names, for whoever plays rollouts. The room of MCP is loaded where there are
 * servers, and nothing where there are none.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { ServerPlan, ServerTool } from "../core/task/servers.js";
import type { AnyTask } from "../core/task/task.js";
import type { McpConfig } from "./mcp/plan.js";

/** Log folder for commands that make no run. */
export const serverLogs = (home: string) => join(home, "logs", "mcp");

/** Hash of the tools as described to the model: a run resumes only with the same ones. */
export function toolsFingerprint(tools: readonly ServerTool[]): string {
  return createHash("sha256").update(JSON.stringify(tools)).digest("hex");
}

export interface TaskWithServers {
  /** With the servers' tools, for code that does not call them: prompts, judges, imitation. */
  readonly task: AnyTask;
  /** For those who call them; undefined without servers. */
  readonly servers: ServerPlan | undefined;
}

/**
 * @param reference of the task, as for `loadTask`: paths of its servers are relative to its folder
 * @param log receives a line for each tool that the model does not get
 * @throws UsageError when the servers' file or an option is wrong
 * @throws HoneError when a server cannot be asked, or none has a tool
 */
export async function withServers(
  config: McpConfig,
  task: AnyTask,
  reference: string,
  logs: string,
  io: { log(line: string): void; signal?: AbortSignal | undefined },
): Promise<TaskWithServers> {
  const named = [task.mcp, config.mcp, config.mcpAllow, config.mcpDeny].some((one) => one !== undefined);
  if (!named) return { task, servers: undefined };
  const [{ surveyServers, usablePlan }, { withServerTools }] = await Promise.all([
    import("./mcp/plan.js"),
    import("./mcp/servers.js"),
  ]);
  const surveyed = await surveyServers(config, task, reference, logs, io.signal);
  const servers = surveyed && usablePlan(surveyed, io.log);
  return { task: withServerTools(task, servers), servers };
}
