/**
 * The tools of MCP servers, listed once before any rollout: every rollout of the model gets the same tools, and a
 * server that lists others later is detected. Plain data, so that it can be sent to workers.
 */
import { createHash } from "node:crypto";
import { jsonSchema } from "../../chat/json-schema.js";
import type { ServerTool } from "../../core/task/servers.js";
import { messageOf, UsageError } from "../../core/util/errors.js";
import type { ListedTool } from "./connection.js";

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
  /** "choice": excluded by --mcp-allow or --mcp-deny; "bad_entry": the list does not describe it as a tool. */
  readonly why: "choice" | "task_only" | "bad_schema" | "bad_entry";
  readonly problem: string;
}

export interface Catalogue {
  readonly tools: readonly ServerTool[];
  readonly leftOut: readonly LeftOut[];
  /** What of the tools' schemas their arguments are not held to, each in one line. */
  readonly unchecked: readonly string[];
}

const LONGEST_NAME = 64;

/** A name with a hash of the whole at its end. */
const hashed = (plain: string, whole: string) =>
  `${plain.slice(0, LONGEST_NAME - 9)}_${createHash("sha256").update(whole).digest("hex").slice(0, 8)}`;

/** A tool name that model APIs accept: other characters are replaced, and where little is left a hash of the whole is added. */
export function callable(name: string): string {
  const plain = name.replace(/[^a-zA-Z0-9_-]/gu, "_").replace(/^(?![a-zA-Z_])/, "_");
  if (!/[a-zA-Z0-9]/.test(plain)) return hashed("tool", name);
  return plain.length <= LONGEST_NAME ? plain : hashed(plain, name);
}

/**
 * Names of the tools, all different where that can be: a tool's own, with the server's before it where another has the same, and
 * with a hash where that is the same too, as for `a.b` and `a/b`.
 *
 * @param taken names of the task's own tools
 */
function namesOf(tools: readonly { readonly server: string; readonly toolName: string }[], taken: readonly string[]) {
  const names = tools.map(() => "");
  const withServer = ({ server, toolName }: (typeof tools)[number]) => callable(`${server}_${callable(toolName)}`);
  for (const nameOf of [
    ({ toolName }: (typeof tools)[number]) => callable(toolName),
    withServer,
    (tool: (typeof tools)[number]) => hashed(withServer(tool), `${tool.server}/${tool.toolName}`),
  ]) {
    const used = new Set([...taken, ...names]);
    const tried = tools.map((tool, index) => (names[index] === "" ? nameOf(tool) : ""));
    for (const [index, name] of tried.entries()) {
      if (name !== "" && !used.has(name) && tried.indexOf(name) === tried.lastIndexOf(name)) names[index] = name;
    }
  }
  return names;
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

/**
 * The tools that the model gets, each by a name of its own.
 *
 * @param taken names of the task's own tools
 * @throws UsageError when a pattern matches nothing, or two tools cannot be given different names
 */
export function catalogueOf(listings: readonly Listing[], choice: Choice, taken: readonly string[]): Catalogue {
  const chosen = chooser(listings, choice);
  const leftOut: LeftOut[] = [];
  const unchecked: string[] = [];
  const kept: Omit<ServerTool, "name">[] = [];
  const look = (server: string, { name: tool, description, inputSchema, problem, taskOnly }: ListedTool) => {
    const leave = (why: LeftOut["why"], problem: string) => leftOut.push({ server, tool, why, problem });
    if (!chosen(server, tool)) return leave("choice", "left out by --mcp-allow or --mcp-deny");
    if (problem !== undefined) return leave("bad_entry", problem);
    if (taskOnly) return leave("task_only", "it runs only as a task of the protocol, not as a call");
    try {
      const { unchecked: parts } = jsonSchema(inputSchema);
      unchecked.push(...parts.map((what) => `of the tool ${tool} of the MCP server ${server} ${what}`));
      return kept.push({ server, toolName: tool, description, inputSchema });
    } catch (error) {
      return leave("bad_schema", messageOf(error));
    }
  };
  for (const { server, tools } of listings) for (const tool of tools) look(server, tool);
  const names = namesOf(kept, taken);
  const unnamed = kept.find((_, index) => names[index] === "");
  if (unnamed) {
    throw new UsageError(
      `the tool ${unnamed.toolName} of the MCP server ${unnamed.server} cannot be called otherwise than another; rename the server, or leave one out with --mcp-deny`,
    );
  }
  const tools = kept.map((tool, index): ServerTool => ({ name: names[index] as string, ...tool }));
  return { tools, leftOut, unchecked };
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
