/**
 * The tools of MCP servers, listed once before any rollout: every rollout of the model gets the same tools, and a
 * server that lists others later is detected. Plain data, so that it can be sent to workers.
 */
import { createHash } from "node:crypto";
import { jsonSchema } from "../tasks/index.js";
import { messageOf, UsageError } from "../util/index.js";
import type { ListedTool } from "./connection.js";

/** A server's tool and its name for the model. */
export interface ServerTool {
  readonly name: string;
  readonly server: string;
  /** Name of the tool on the server. */
  readonly toolName: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

export interface Listing {
  readonly server: string;
  readonly tools: readonly ListedTool[];
}

export interface Choice {
  readonly allow: readonly string[];
  readonly deny: readonly string[];
}

/** A tool that is left out of the model's tools. */
export interface LeftOut {
  readonly server: string;
  readonly tool: string;
  /** "choice": excluded by --mcp-allow or --mcp-deny. */
  readonly why: "choice" | "task_only" | "bad_schema";
  readonly problem: string;
}

export interface Catalogue {
  readonly tools: readonly ServerTool[];
  readonly leftOut: readonly LeftOut[];
}

const LONGEST_NAME = 64;

/** A tool name that model APIs accept: other characters are replaced, and a long name ends in a hash of the whole. */
function callable(name: string): string {
  const plain = name.replace(/[^a-zA-Z0-9_-]/g, "_").replace(/^(?![a-zA-Z_])/, "_");
  if (plain.length <= LONGEST_NAME) return plain;
  const hash = createHash("sha256").update(name).digest("hex").slice(0, 8);
  return `${plain.slice(0, LONGEST_NAME - 9)}_${hash}`;
}

/** Compiles a pattern: `NAME` or `SERVER/NAME`, with `*` for any text. */
function matcher(pattern: string): (server: string, tool: string) => boolean {
  const glob = new RegExp(
    `^${pattern
      .split("*")
      .map((text) => text.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"))
      .join(".*")}$`,
  );
  return (server, tool) => glob.test(`${server}/${tool}`) || (!pattern.includes("/") && glob.test(tool));
}

/** @throws UsageError when a pattern matches no tool, since it is probably misspelt */
function chooser(listings: readonly Listing[], { allow, deny }: Choice): (server: string, tool: string) => boolean {
  const all = listings.flatMap(({ server, tools }) => tools.map(({ name }) => [server, name] as const));
  const compile = (patterns: readonly string[], flag: string) =>
    patterns.map((pattern) => {
      const fits = matcher(pattern);
      if (all.some(([server, tool]) => fits(server, tool))) return fits;
      const names = all.map((one) => one.join("/"));
      throw new UsageError(`${flag} ${pattern}: no server has such a tool; there are ${names.join(", ") || "none"}`);
    });
  const allowed = compile(allow, "--mcp-allow");
  const denied = compile(deny, "--mcp-deny");
  return (server, tool) =>
    (allowed.length === 0 || allowed.some((fits) => fits(server, tool))) && !denied.some((fits) => fits(server, tool));
}

function whyLeftOut(tool: ListedTool, chosen: boolean): Pick<LeftOut, "why" | "problem"> | undefined {
  if (!chosen) return { why: "choice", problem: "left out by --mcp-allow or --mcp-deny" };
  if (tool.taskOnly) return { why: "task_only", problem: "it runs only as a task of the protocol, not as a call" };
  try {
    jsonSchema(tool.inputSchema);
    return undefined;
  } catch (error) {
    return { why: "bad_schema", problem: messageOf(error) };
  }
}

/**
 * Names that collide with the task's tools or between servers are prefixed with the server's.
 *
 * @param taken names of the task's own tools
 * @throws UsageError when a pattern matches nothing, or two tools cannot be given different names
 */
export function catalogueOf(listings: readonly Listing[], choice: Choice, taken: readonly string[]): Catalogue {
  const chosen = chooser(listings, choice);
  const leftOut: LeftOut[] = [];
  const kept = listings.flatMap(({ server, tools }) =>
    tools.flatMap((tool) => {
      const why = whyLeftOut(tool, chosen(server, tool.name));
      if (why) leftOut.push({ server, tool: tool.name, ...why });
      return why ? [] : [{ server, tool }];
    }),
  );
  const uses = new Map<string, number>(taken.map((name) => [name, 1]));
  for (const { tool } of kept) uses.set(callable(tool.name), (uses.get(callable(tool.name)) ?? 0) + 1);
  const tools = kept.map(({ server, tool: { name: toolName, description, inputSchema } }): ServerTool => {
    const alone = uses.get(callable(toolName)) === 1;
    return { name: callable(alone ? toolName : `${server}_${toolName}`), server, toolName, description, inputSchema };
  });
  const names = [...taken, ...tools.map(({ name }) => name)];
  const twice = tools.find(({ name }) => names.indexOf(name) !== names.lastIndexOf(name));
  if (twice) {
    throw new UsageError(
      `the tool ${twice.toolName} of the MCP server ${twice.server} would be called ${twice.name} like another; rename the server, or leave one out with --mcp-deny`,
    );
  }
  return { tools, leftOut };
}

/** Hash of the tools as described to the model: a run resumes only with the same ones. */
export function toolsFingerprint(tools: readonly ServerTool[]): string {
  return createHash("sha256").update(JSON.stringify(tools)).digest("hex");
}

/** Describes how a server's tools differ from the known ones; undefined when they are the same. */
export function changedTools(known: readonly ServerTool[], now: readonly ListedTool[]): string | undefined {
  for (const { toolName, description, inputSchema } of known) {
    const tool = now.find(({ name }) => name === toolName);
    if (!tool) return `has no tool ${toolName} any more`;
    if (tool.description !== description || JSON.stringify(tool.inputSchema) !== JSON.stringify(inputSchema)) {
      return `describes its tool ${toolName} differently than before`;
    }
  }
  return undefined;
}
