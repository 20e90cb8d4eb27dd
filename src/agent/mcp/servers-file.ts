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

/** A server's entry, in whose texts the variables are filled in. */
function definitionIn(surroundings: Surroundings) {
  const text = z.string().transform((written, context) => {
    try {
      return expand(written, surroundings);
    } catch (error) {
      context.addIssue(messageOf(error));
      return z.NEVER;
    }
  });
  const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()]).transform((value) => String(value ?? ""));
  return z.object({
    type: z.enum(["stdio", "http", "streamable-http", "streamableHttp", "sse"]).optional(),
    command: z.string().min(1).pipe(text).optional(),
    args: z.array(z.union([z.string(), z.number()]).transform(String).pipe(text)).default([]),
    env: z.record(z.string(), scalar.pipe(text)).default({}),
    envFile: z.string().min(1).pipe(text).optional(),
    cwd: z.string().min(1).pipe(text).optional(),
    url: z.string().min(1).pipe(text).optional(),
    headers: z.record(z.string(), text).default({}),
    disabled: z.boolean().optional(),
  });
}

/** Fields for other programs: descriptions for people, and calls that need no confirmation. */
const ofOthers = ["name", "description", "icon", "version", "gallery", "dev", "autoApprove", "alwaysAllow"];

function specOf(name: string, raw: unknown, where: string, surroundings: Surroundings): ServerSpec[] {
  const wrong = (what: string): never => {
    throw new UsageError(`${where}: ${what}`);
  };
  const { workspace } = surroundings;
  const definition = definitionIn(surroundings);
  const known = Object.keys(definition.shape);
  const stranger = Object.keys(raw ?? {}).find((key) => !known.includes(key) && !ofOthers.includes(key));
  if (isFields(raw) && stranger !== undefined) {
    const close = nearest(stranger, known);
    wrong(
      `${stranger} means nothing to hone; ${close ? `did you mean ${close}?` : `a server has ${known.join(", ")}`}`,
    );
  }
  if (isFields(raw) && raw.disabled === true) return [];
  const { data, error } = definition.safeParse(raw);
  if (!data) return wrong(`${error.issues[0]?.path.join(".") || name}: ${error.issues[0]?.message}`);
  const { type, command, args, env, envFile, cwd = workspace, url, headers } = data;
  if (url !== undefined && command === undefined) {
    if (!URL.canParse(url) || !/^https?:/.test(url)) wrong(`${url} is no http address`);
    if (new URL(url).username) wrong("a name in the url is sent to nobody; use headers");
    return [{ name, kind: type === "sse" ? "sse" : "http", url, headers }];
  }
  if (command === undefined || url !== undefined) {
    return wrong("give either command (a program that speaks over stdio) or url");
  }
  const file = envFile && resolve(workspace, envFile);
  let more: NodeJS.Dict<string> = {};
  try {
    if (file) more = parseEnv(readFileSync(file, "utf8"));
  } catch (error) {
    wrong(`the envFile ${file} cannot be read: ${messageOf(error)}`);
  }
  // The rollout's folder is not known yet.
  const folder = cwd.startsWith(ROLLOUT_FOLDER) ? cwd : resolve(workspace, cwd);
  return [{ name, kind: "stdio", command, args, env: { ...(more as Record<string, string>), ...env }, cwd: folder }];
}

/** `source` names the file or task in messages. @throws UsageError for a server that cannot be one */
export function serversFrom(
  servers: Readonly<Record<string, unknown>>,
  source: string,
  workspace: string,
  inputs: Surroundings["inputs"] = new Map(),
): ServerSpec[] {
  return Object.entries(servers).flatMap(([name, raw]) =>
    specOf(name, raw, `${source}: the server ${name}`, { workspace, inputs }),
  );
}

/** @throws UsageError when the file is missing, not an `mcpServers` file, or lacks a variable that its servers need */
export function readServersFile(given: string): ServerSpec[] {
  const file = resolve(given);
  const source = `--mcp ${given}`;
  let data: unknown;
  try {
    data = parseJsonc(readFileSync(file, "utf8"));
  } catch (error) {
    throw new UsageError(`${source}: ${error instanceof SyntaxError ? "it is not JSON: " : ""}${messageOf(error)}`);
  }
  // In VS Code's settings the servers are under "mcp".
  const holder = isFields(data) && isFields(data.mcp) ? data.mcp : data;
  const { servers: ofCode, mcpServers: servers = ofCode, inputs } = isFields(holder) ? holder : {};
  if (!isFields(servers)) {
    throw new UsageError(
      `${source}: it has neither "mcpServers" nor "servers": {"mcpServers": {"NAME": {"command": …}}}`,
    );
  }
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
