/** Lists the tools of MCP servers and their defects. */
import type { Surveyed } from "../../agent/mcp/plan.js";
import { describedTools } from "../../agent/mcp/servers.js";
import { error, type Finding, toolFindings, warning } from "./findings.js";

export type CheckedServer = ReturnType<typeof checkedServers>[number];

export function checkedServers({ listed, plan }: Surveyed) {
  return listed.map(({ server, version, tools = [] }) => ({
    name: server.name,
    transport: server.kind,
    /** Version that the server reports; empty if it could not be asked. */
    version,
    tools: tools.map(({ name, inputSchema, problem }) => ({
      name,
      /** The tool's name for the model; null if the tool is left out. */
      called:
        (problem === undefined &&
          plan.tools.find((tool) => tool.server === server.name && tool.toolName === name)?.name) ||
        null,
      arguments: Object.keys((inputSchema.properties ?? {}) as object),
    })),
  }));
}

export function serverFindings({ listed, catalogue }: Surveyed): Finding[] {
  return [
    ...listed.flatMap(({ server, tools, failure, strayLines }): Finding[] => [
      ...(failure ? [error("server_failed", failure.message)] : []),
      ...(tools?.length === 0 ? [error("server_failed", `the MCP server ${server.name} has no tools`)] : []),
      ...(strayLines > 0
        ? [
            warning(
              "stray_output",
              `the MCP server ${server.name} wrote ${strayLines} lines to stdout that are no messages; they belong on stderr`,
            ),
          ]
        : []),
    ]),
    ...catalogue.leftOut
      .filter(({ why }) => why !== "choice")
      .map(({ server, tool, why, problem }) => {
        const message = `the tool ${tool} of the MCP server ${server} is left out: ${problem}`;
        return (why === "task_only" ? warning : error)("tool_left_out", message);
      }),
  ];
}

/** Checks the servers without a task. */
export function checkServers(surveyed: Surveyed) {
  const tools = describedTools(surveyed.plan);
  const findings = [...serverFindings(surveyed), ...toolFindings({ tools })];
  return { servers: checkedServers(surveyed), findings };
}
