/**
 * Resolves `--mcp` and a task's `mcp` to a plan for workers: the servers, how to start them, and their tools for the
 * model.
 */
import { dirname, resolve } from "node:path";
import type { Config } from "../../core/config/config.js";
import type { ServerPlan, ServerSpec } from "../../core/task/servers.js";
import type { AnyTask } from "../../core/task/task.js";
import { UsageError } from "../../core/util/errors.js";
import { type Catalogue, type Choice, catalogueOf } from "./catalogue.js";
import { ServerFailure } from "./errors.js";
import { ROLLOUT_FOLDER } from "./expand.js";
import { type Listed, listServers, usesFolder } from "./listing.js";
import { readServersFile, serversFrom } from "./servers-file.js";

/** Options of commands whose rollouts can use servers. */
export type McpConfig = Pick<Config, "mcp" | "mcpAllow" | "mcpDeny">;

/** Default limit of a result's characters: about a quarter of the default context. */
const RESULT_CHARS = 8000;

/** Seconds until a server must have answered after its start: it may be fetched first, by npx or uvx. */
const START_SECONDS = 120;

/** The servers' listings and the plan made from them. */
export interface Surveyed {
  readonly plan: ServerPlan;
  readonly catalogue: Catalogue;
  readonly listed: readonly Listed[];
}

/** Whether rollouts need a folder of their own. */
export const needsFolder = (plan: ServerPlan, task: AnyTask) =>
  plan.servers.some(usesFolder) || task.mcp?.setup !== undefined;

/**
 * The servers of the task and of `--mcp`.
 * @param reference of the task, as for `loadTask`: paths of its servers are relative to its folder
 */
function serversOf(config: Pick<McpConfig, "mcp">, task: AnyTask | undefined, reference: string): ServerSpec[] {
  const own = task?.mcp
    ? serversFrom({ ...task.mcp.servers }, `the task ${task.name}`, dirname(resolve(reference)))
    : [];
  const added = config.mcp === undefined ? [] : readServersFile(config.mcp);
  const both = added.find(({ name }) => own.some((one) => one.name === name));
  if (both)
    throw new UsageError(`--mcp ${config.mcp}: the task has an MCP server ${both.name} too; rename one of them`);
  return [...own, ...added];
}

/**
 * Starts each server once, lists its tools, and ends it. If that fails, its entry in the list has a `failure`.
 *
 * @returns undefined if there are no servers
 * @throws UsageError when the file or an option is wrong
 */
export async function surveyServers(
  config: McpConfig,
  task: AnyTask | undefined,
  reference: string,
  logs: string,
  signal?: AbortSignal,
): Promise<Surveyed | undefined> {
  const servers = serversOf(config, task, reference);
  if (servers.length === 0) {
    const idle = (["mcpAllow", "mcpDeny"] as const).find((name) => config[name] !== undefined);
    if (idle)
      throw new UsageError(`--${idle.replace("mcp", "mcp-").toLowerCase()}: there are no MCP servers; give --mcp`);
    return undefined;
  }
  const own = task?.mcp ?? { servers: {} };
  const { scope = "rollout", resultChars = RESULT_CHARS } = own;
  const shared = scope === "worker" && servers.find(usesFolder);
  if (shared) {
    throw new UsageError(
      `the MCP server ${shared.name} has ${ROLLOUT_FOLDER}, so every rollout needs one of its own: the scope "rollout" in the task's mcp`,
    );
  }
  const listed = await listServers(servers, { startSeconds: START_SECONDS, logs: resolve(logs), signal });
  const choice: Choice = {
    allow: config.mcpAllow ?? own.allow ?? [],
    deny: config.mcpDeny ?? own.deny ?? [],
  };
  const listings = listed.flatMap(({ server, tools }) => (tools ? [{ server: server.name, tools }] : []));
  const whole = listings.length === servers.length;
  // If a server did not answer, its tools might match a pattern, so the choice is not applied.
  const catalogue = catalogueOf(
    listings,
    whole ? choice : { allow: [], deny: [] },
    (task?.tools ?? []).map(({ name }) => name),
  );
  const plan: ServerPlan = {
    servers: servers.filter(({ name }) => catalogue.tools.some(({ server }) => server === name)),
    scope,
    tools: catalogue.tools,
    resultChars,
    startSeconds: START_SECONDS,
    logs: resolve(logs),
  };
  return { plan, catalogue, listed };
}

/**
 * The plan of servers that can all be used.
 *
 * @param log receives a line for each tool that the model does not get
 * @throws HoneError when a server could not be asked, or none has a tool
 */
export function usablePlan({ plan, catalogue, listed }: Surveyed, log: (line: string) => void): ServerPlan {
  const failed = listed.find(({ failure }) => failure);
  if (failed?.failure) throw failed.failure;
  for (const { server, tool, why, problem } of catalogue.leftOut) {
    if (why !== "choice") log(`the tool ${tool} of the MCP server ${server} is left out: ${problem}`);
  }
  for (const what of catalogue.unchecked) log(what);
  if (plan.tools.length === 0) {
    throw new ServerFailure("server_silent", listed.map(({ server }) => server.name).join(", "), "has no tools");
  }
  return plan;
}
