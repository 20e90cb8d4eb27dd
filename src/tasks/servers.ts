/** MCP servers as a task file names them. The room src/mcp starts and asks them. */

/** A server in the form of `mcpServers` files: a program that speaks over stdio, or an address. */
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

/** Who has a server for itself: each rollout, or all rollouts of a worker thread together. */
export type ServerScope = "rollout" | "worker";

/** MCP servers whose tools a task has beside its own. */
export interface TaskServers<S = unknown> {
  /**
   * By name, as in an `mcpServers` file, with the same variables. `${rolloutFolder}` is a folder of the rollout's own,
   * removed after its reward; `${workspaceFolder}` is the folder of the task file.
   */
  readonly servers: Readonly<Record<string, ServerDefinition>>;
  /** `--mcp-scope` is stronger. Default "rollout". */
  readonly scope?: ServerScope;
  /** Tools to have alone, and tools to leave out: `NAME`, `SERVER/NAME`, with `*` for any text. */
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
  /** Characters of one result that the model reads; `--mcp-result-chars` is stronger. */
  readonly resultChars?: number;
  /** Fills the rollout's folder before its servers start. */
  setup?(folder: string, scenario: S): void | Promise<void>;
}
