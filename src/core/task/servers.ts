/** MCP servers in a task file. The room src/agent/mcp starts them. */

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

/** Failures of a server, by name. */
export type ServerProblem =
  /** Its program does not exist, or ended before it answered. */
  | "server_not_started"
  | "server_silent"
  /** Its process ended, or its address stopped answering. */
  | "server_died"
  /** Its tools differ from those in the catalogue. */
  | "tools_changed"
  /** A message exceeded the size limit. */
  | "message_too_long";

/** Events of a rollout's servers that are not failures but are counted too. */
export type ServerEvent =
  | ServerProblem
  /** A result was longer than the model's limit. */
  | "result_cut"
  /** Images, sound and other binary data were left out of a result. */
  | "binary_left_out"
  /** Lines on stdout that were not messages. */
  | "stray_output"
  /** A call got no answer before its deadline. */
  | "call_timed_out"
  /** A server that had died or hung in another rollout was restarted. */
  | "server_restarted";

export type ServerEvents = Partial<Record<ServerEvent, number>>;

/** How to start a server; variables are expanded except for the rollout's folder. */
export type ServerSpec = { readonly name: string } & (
  | {
      readonly kind: "stdio";
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
      readonly cwd: string;
    }
  | { readonly kind: "http" | "sse"; readonly url: string; readonly headers: Readonly<Record<string, string>> }
);

/** A server's tool and its name for the model. */
export interface ServerTool {
  readonly name: string;
  readonly server: string;
  /** Name of the tool on the server. */
  readonly toolName: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

/** Plain data, so that it can be sent to workers. Contains the servers' keys, so it is never written. */
export interface ServerPlan {
  readonly servers: readonly ServerSpec[];
  readonly scope: ServerScope;
  readonly tools: readonly ServerTool[];
  readonly resultChars: number;
  readonly startSeconds: number;
  /** Folder of the servers' logs. */
  readonly logs: string;
}
