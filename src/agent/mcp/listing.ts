/** Lists the tools of all servers in parallel, each in a process of its own. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ServerSpec } from "../../core/task/servers.js";
import { removedAfter } from "../../core/util/files.js";
import { unlessAborted } from "../../core/util/signals.js";
import { Connection, type ListedTool } from "./connection.js";
import { ServerFailure } from "./errors.js";
import { ROLLOUT_FOLDER } from "./expand.js";

export interface Listed {
  readonly server: ServerSpec;
  /** The server's own name and version. */
  readonly version: string;
  readonly tools?: readonly ListedTool[];
  readonly failure?: ServerFailure;
  /** Lines on stdout that were not messages. */
  readonly strayLines: number;
}

export const usesFolder = (server: ServerSpec) => JSON.stringify(server).includes(ROLLOUT_FOLDER);

/** A copy of the server with its variable replaced by the rollout's folder. */
export function inFolder(server: ServerSpec, folder: string): ServerSpec {
  const written = JSON.stringify(folder).slice(1, -1);
  return JSON.parse(JSON.stringify(server).replaceAll(ROLLOUT_FOLDER, () => written));
}

export const rolloutFolder = () => mkdtempSync(join(tmpdir(), "hone-rollout-"));

export async function listServers(
  servers: readonly ServerSpec[],
  { startSeconds, logs, signal }: { startSeconds: number; logs: string; signal?: AbortSignal | undefined },
): Promise<Listed[]> {
  const folder = servers.some(usesFolder) ? rolloutFolder() : "";
  using _folder = folder === "" ? undefined : removedAfter(folder);
  const list = async (server: ServerSpec): Promise<Listed> => {
    let connection: Connection | undefined;
    try {
      connection = await Connection.open({ server: inFolder(server, folder), logs, label: "tools", startSeconds });
      const tools = await connection.tools();
      return { server, version: connection.version, tools, strayLines: connection.takeStrayLines() };
    } catch (error) {
      if (!(error instanceof ServerFailure)) throw error;
      return { server, version: "", failure: error, strayLines: 0 };
    } finally {
      await connection?.close();
    }
  };
  return await unlessAborted(Promise.all(servers.map(list)), signal);
}
