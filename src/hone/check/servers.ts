/** Lists the tools of MCP servers and their defects. */
import type { Surveyed } from "../../agent/mcp/plan.js";
import { describedTools } from "../../agent/mcp/servers.js";
import { error, type Finding, toolFindings, warning } from "./findings.js";

export type CheckedServer = ReturnType<typeof checkedServers>[number];

export function checkedServers({ listed, plan }: Surveyed) {
  return listed.map(({ server, version, tools = [] }) => {
    const called = (toolName: string) =>
      plan.tools.find((tool) => tool.server === server.name && tool.toolName === toolName)?.name;
    return {
      name: server.name,
      transport: server.kind,
      /** Version that the server reports; empty if it could not be asked. */
      version,
      tools: tools.map(({ name, inputSchema, problem }) => ({
        name,
        /** The tool's name for the model; null if the tool is left out. */
        called: (problem === undefined && called(name)) || null,
        arguments: Object.keys((inputSchema.properties ?? {}) as object),
      })),
    };
  });
}

export function* serverFindings({ listed, catalogue }: Surveyed): Iterable<Finding> {
  for (const { server, tools, failure, strayLines } of listed) {
    const stray = `the MCP server ${server.name} wrote ${strayLines} lines to stdout that are no messages; they belong on stderr`;
    if (failure) yield error("server_failed", failure.message);
    if (tools?.length === 0) yield error("server_failed", `the MCP server ${server.name} has no tools`);
    if (strayLines > 0) yield warning("stray_output", stray);
  }
  for (const { server, tool, why, problem } of catalogue.leftOut) {
    const message = `the tool ${tool} of the MCP server ${server} is left out: ${problem}`;
    if (why !== "choice") yield (why === "task_only" ? warning : error)("tool_left_out", message);
  }
}

/** Checks the servers without a task. */
export function checkServers(surveyed: Surveyed) {
  const tools = describedTools(surveyed.plan);
  const findings = [...serverFindings(surveyed), ...toolFindings({ tools })];
  return { servers: checkedServers(surveyed), findings };
}
