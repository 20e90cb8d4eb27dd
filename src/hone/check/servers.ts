/** Lists the tools of MCP servers and their defects. */
import type { Surveyed } from "../../agent/mcp/plan.js";
import { describedTools } from "../../agent/mcp/servers.js";
import { type Finding, toolFindings } from "./findings.js";

export interface CheckedServer {
  readonly name: string;
  readonly transport: "stdio" | "http" | "sse";
  /** Version that the server reports; empty if it could not be asked. */
  readonly version: string;
  /** `called` is the tool's name for the model; null if the tool is left out. */
  readonly tools: readonly { readonly name: string; readonly called: string | null; readonly arguments: string[] }[];
}

export function checkedServers({ listed, plan }: Surveyed): CheckedServer[] {
  return listed.map(({ server, version, tools = [] }) => ({
    name: server.name,
    transport: server.kind,
    version,
    tools: tools.map(({ name, inputSchema, problem }) => ({
      name,
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
      ...(failure ? [{ level: "error", kind: "server_failed", message: failure.message } as const] : []),
      ...(tools?.length === 0
        ? [{ level: "error", kind: "server_failed", message: `the MCP server ${server.name} has no tools` } as const]
        : []),
      ...(strayLines > 0
        ? [
            {
              level: "warning",
              kind: "stray_output",
              message: `the MCP server ${server.name} wrote ${strayLines} lines to stdout that are no messages; they belong on stderr`,
            } as const,
          ]
        : []),
    ]),
    ...catalogue.leftOut.flatMap(({ server, tool, why, problem }): Finding[] =>
      why === "choice"
        ? []
        : [
            {
              level: why === "task_only" ? "warning" : "error",
              kind: "tool_left_out",
              message: `the tool ${tool} of the MCP server ${server} is left out: ${problem}`,
            },
          ],
    ),
  ];
}

/** Checks the servers without a task. */
export function checkServers(surveyed: Surveyed): { servers: CheckedServer[]; findings: Finding[] } {
  const tools = describedTools(surveyed.plan);
  const findings = [...serverFindings(surveyed), ...toolFindings({ tools })];
  return { servers: checkedServers(surveyed), findings };
}
