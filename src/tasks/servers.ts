/** MCP servers in a task file. The room src/mcp starts them. */

/** A server in the format of `mcpServers` files: a program that speaks over stdio, or a URL. */
export interface ServerDefinition {
  readonly command?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string | number | boolean>>;
  readonly envFile?: string;
  readonly cwd?: string;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: "stdio" with a command, "http" (streamable) with a url. */
  readonly type?: "stdio" | "http" | "streamable-http" | "sse";
  readonly disabled?: boolean;
}

/** Lifetime of a server: one for each rollout, or one for all rollouts of a worker thread. */
export type ServerScope = "rollout" | "worker";

/** MCP servers whose tools a task has in addition to its own. */
export interface TaskServers<S = unknown> {
  /**
   * By name, as in an `mcpServers` file, with the same variables. `${rolloutFolder}` is a folder of the rollout's own,
   * removed after its reward; `${workspaceFolder}` is the folder of the task file.
   */
  readonly servers: Readonly<Record<string, ServerDefinition>>;
  /** Who has a server for itself: each rollout, or each thread, for servers that keep nothing. Default "rollout". */
  readonly scope?: ServerScope;
  /** Tools to include, and tools to leave out: `NAME`, `SERVER/NAME`, with `*` for any text. */
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  /** Maximum number of characters of a result that the model reads. Default 8000. */
  readonly resultChars?: number;
  /** Fills the rollout's folder before its servers start. */
  setup?(folder: string, scenario: S): void | Promise<void>;
}
