/**
 * Reads servers from an `mcpServers` file (Claude Desktop, Claude Code, Cursor; VS Code's has `servers`) or a task
 * file.
 */
import { readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { parseEnv } from "node:util";
import { z } from "zod";
import type { ServerSpec } from "../../core/task/servers.js";
import { messageOf, UsageError } from "../../core/util/errors.js";
import { nearest } from "../../core/util/nearest.js";
import { isFields } from "../../serve/openai/fields.js";
import { expand, ROLLOUT_FOLDER, type Surroundings } from "./expand.js";
import { parseJsonc } from "./jsonc.js";

const scalars = z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()]));
const definition = z.object({
  type: z.enum(["stdio", "http", "streamable-http", "streamableHttp", "sse"]).optional(),
  command: z.string().min(1).optional(),
  args: z.array(z.union([z.string(), z.number()])).optional(),
  env: scalars.optional(),
  envFile: z.string().min(1).optional(),
  cwd: z.string().min(1).optional(),
  url: z.string().min(1).optional(),
  headers: z.record(z.string(), z.string()).optional(),
  disabled: z.boolean().optional(),
});
type Definition = z.output<typeof definition>;

/** Fields for other programs: descriptions for people, and calls that need no confirmation. */
const ofOthers = ["name", "description", "icon", "version", "gallery", "dev", "autoApprove", "alwaysAllow"];

function checked(name: string, raw: unknown, where: string): Definition {
  const known = Object.keys(definition.shape);
  if (isFields(raw)) {
    const stranger = Object.keys(raw).find((key) => !known.includes(key) && !ofOthers.includes(key));
    if (stranger !== undefined) {
      const close = nearest(stranger, known);
      const hint = close ? `did you mean ${close}?` : `a server has ${known.join(", ")}`;
      throw new UsageError(`${where}: ${stranger} means nothing to hone; ${hint}`);
    }
  }
  const parsed = definition.safeParse(raw);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new UsageError(`${where}: ${[...(issue?.path ?? [])].join(".") || name}: ${issue?.message}`);
  }
  const { command, url } = parsed.data;
  if ((command === undefined) === (url === undefined)) {
    throw new UsageError(`${where}: give either command (a program that speaks over stdio) or url`);
  }
  return parsed.data;
}

function envOf(file: string, where: string): Record<string, string> {
  try {
    return { ...parseEnv(readFileSync(file, "utf8")) } as Record<string, string>;
  } catch (error) {
    throw new UsageError(`${where}: the envFile ${file} cannot be read: ${messageOf(error)}`);
  }
}

/** A path in the rollout's folder stays as it is, since that folder is not known yet. */
const placeIn = (workspace: string, folder: string) =>
  folder.startsWith(ROLLOUT_FOLDER) ? folder : resolve(workspace, folder);

function specOf(name: string, raw: unknown, source: string, surroundings: Surroundings): ServerSpec[] {
  const where = `${source}: the server ${name}`;
  const given = checked(name, raw, where);
  if (given.disabled) return [];
  const filled = (text: string, field: string) => expand(text, `${where}: ${field}`, surroundings);
  const each = (values: Readonly<Record<string, unknown>>, field: string) =>
    Object.fromEntries(
      Object.entries(values).map(([key, value]) => [key, filled(String(value ?? ""), `${field}.${key}`)]),
    );
  if (given.url !== undefined) {
    const url = filled(given.url, "url");
    if (!URL.canParse(url) || !/^https?:/.test(url)) throw new UsageError(`${where}: ${url} is no http address`);
    if (new URL(url).username) throw new UsageError(`${where}: a name in the url is sent to nobody; use headers`);
    return [{ name, kind: given.type === "sse" ? "sse" : "http", url, headers: each(given.headers ?? {}, "headers") }];
  }
  const { workspace } = surroundings;
  return [
    {
      name,
      kind: "stdio",
      command: filled(given.command as string, "command"),
      args: (given.args ?? []).map((arg, i) => filled(String(arg), `args.${i}`)),
      env: {
        ...(given.envFile ? envOf(resolve(workspace, filled(given.envFile, "envFile")), where) : {}),
        ...each(given.env ?? {}, "env"),
      },
      cwd: given.cwd === undefined ? workspace : placeIn(workspace, filled(given.cwd, "cwd")),
    },
  ];
}

/** `source` names the file or task in messages. */
export function serversFrom(
  servers: Readonly<Record<string, unknown>>,
  source: string,
  workspace: string,
  inputs: Surroundings["inputs"] = new Map(),
): ServerSpec[] {
  return Object.entries(servers).flatMap(([name, raw]) => specOf(name, raw, source, { workspace, inputs }));
}

/** @throws UsageError when the file is missing, not an `mcpServers` file, or lacks a variable that its servers need */
export function readServersFile(given: string): ServerSpec[] {
  const file = resolve(given);
  const source = `--mcp ${given}`;
  let data: unknown;
  try {
    data = parseJsonc(readFileSync(file, "utf8"));
  } catch (error) {
    throw new UsageError(
      error instanceof SyntaxError ? `${source}: it is not JSON: ${error.message}` : `${source}: ${messageOf(error)}`,
    );
  }
  // In VS Code's settings the servers are under "mcp".
  const holder = isFields(data) && isFields(data.mcp) ? data.mcp : data;
  const servers = isFields(holder) ? (holder.mcpServers ?? holder.servers) : undefined;
  if (!isFields(servers)) {
    throw new UsageError(
      `${source}: it has neither "mcpServers" nor "servers": {"mcpServers": {"NAME": {"command": …}}}`,
    );
  }
  const { inputs } = holder as { inputs?: unknown };
  const defaults = (Array.isArray(inputs) ? inputs.filter(isFields) : []).map(
    ({ id, default: value }): [string, string | undefined] => [String(id), value === undefined ? value : String(value)],
  );
  // Editors keep the file in a sub-folder of the workspace.
  const folder = dirname(file);
  const workspace = [".vscode", ".cursor"].includes(basename(folder)) ? dirname(folder) : folder;
  const specs = serversFrom(servers, source, workspace, new Map(defaults));
  if (specs.length === 0) throw new UsageError(`${source}: no server is named there, or all are disabled`);
  return specs;
}
