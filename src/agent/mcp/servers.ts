/**
 * The MCP servers of a thread's rollouts. A server starts at the first call of one of its tools, and ends with the rollout,
 * or with the thread where all its rollouts share it (the scope "worker" of a task's `mcp`).
 */
import { rmSync } from "node:fs";
import { jsonSchema } from "../../chat/json-schema.js";
import type { ServerEvent, ServerEvents, ServerPlan, ServerTool } from "../../core/task/servers.js";
import { type AnyTask, defineTool, type Scenario, type Tool, type ToolContext } from "../../core/task/task.js";
import { onAbort } from "../../core/util/signals.js";
import { changedTools } from "./catalogue.js";
import { Connection } from "./connection.js";
import { ServerFailure } from "./errors.js";
import { inFolder, rolloutFolder } from "./listing.js";
import { needsFolder } from "./plan.js";
import { resultText } from "./result.js";

type Call = (tool: ServerTool, args: Record<string, unknown>, context: ToolContext) => Promise<unknown>;

/** Compiles the schemas once; the tools of rollouts differ only in the function that they call. */
function toolsOf(tools: readonly ServerTool[]): (call: Call) => Tool[] {
  const compiled = tools.map((tool) => ({ tool, parameters: jsonSchema(tool.inputSchema) }));
  return (call) =>
    compiled.map(({ tool, parameters }) =>
      defineTool({
        name: tool.name,
        description: tool.description,
        parameters,
        execute: (args, context) => call(tool, args, context),
      }),
    );
}

const withTools = (task: AnyTask, tools: readonly Tool[]): AnyTask =>
  Object.assign(Object.create(task) as AnyTask, { tools: [...task.tools, ...tools] });

/** The task with the servers' tools, for code that does not call them: prompts, judges, imitation. */
export const withServerTools = (task: AnyTask, plan: Pick<ServerPlan, "tools"> | undefined): AnyTask =>
  plan ? withTools(task, describedTools(plan)) : task;

/** The tools of a plan, which cannot be called. */
export function describedTools({ tools }: Pick<ServerPlan, "tools">): Tool[] {
  const nowhere = async ({ server }: ServerTool) => {
    throw new Error(`the MCP server ${server} runs in rollouts only`);
  };
  return toolsOf(tools)(nowhere);
}

/** The MCP servers of one rollout. */
export interface RolloutServers {
  /** The task with the servers' tools. */
  readonly task: AnyTask;
  readonly folder: string | undefined;
  /** Counts of events so far. */
  events(): ServerEvents;
  /** Ends the servers of this rollout alone; need not be awaited. */
  end(): void;
}

/** Who has servers for itself, a rollout or a thread: its connections, and where and as whom they run for the rollout at hand. */
interface Owner {
  readonly connections: Map<string, Promise<Connection>>;
  /** In the log. */
  readonly label: string;
  readonly folder: string | undefined;
  readonly seen: (event: ServerEvent, times?: number) => void;
}

/** The MCP servers of one thread. */
export class McpServers {
  /** As {@link withServerTools}. */
  readonly task: AnyTask;
  readonly #plain: AnyTask;
  readonly #plan: ServerPlan;
  readonly #tools: (call: Call) => Tool[];
  readonly #shared = new Map<string, Promise<Connection>>();
  readonly #ending = new Set<Promise<void>>();

  constructor(plan: ServerPlan, task: AnyTask) {
    this.#plain = task;
    this.#plan = plan;
    this.#tools = toolsOf(plan.tools);
    this.task = withServerTools(task, plan);
  }

  async begin(id: string, scenario: Scenario): Promise<RolloutServers> {
    const { scope } = this.#plan;
    const counted: ServerEvents = {};
    const seen = (event: ServerEvent, times = 1) => {
      if (times > 0) counted[event] = (counted[event] ?? 0) + times;
    };
    const folder = needsFolder(this.#plan, this.#plain) ? rolloutFolder() : undefined;
    try {
      if (folder !== undefined) await this.#plain.mcp?.setup?.(folder, scenario);
    } catch (error) {
      this.#end([], folder);
      throw error;
    }
    const isShared = scope === "worker";
    const connections = isShared ? this.#shared : new Map<string, Promise<Connection>>();
    const owner: Owner = { connections, label: isShared ? "worker" : id, folder, seen };
    const call: Call = async (tool, args, { signal }) => {
      // Counted at once: the rollout may be over before a server that still starts can be asked.
      using _late = onAbort(signal, () => seen("call_timed_out"));
      try {
        const connection = await this.#connection(owner, tool.server);
        const result = await connection
          .call(tool.toolName, args, signal)
          .finally(() => seen("stray_output", connection.takeStrayLines()));
        return resultText(result, this.#plan.resultChars, seen);
      } catch (error) {
        if (error instanceof ServerFailure && !signal.aborted) seen(error.problem);
        throw error;
      }
    };
    return {
      task: withTools(this.#plain, this.#tools(call)),
      folder,
      events: () => counted,
      end: () => this.#end(isShared ? [] : [...connections.values()], folder),
    };
  }

  /** Ends all servers. */
  async close(): Promise<void> {
    this.#end([...this.#shared.values()], undefined);
    this.#shared.clear();
    while (this.#ending.size > 0) await Promise.all(this.#ending);
  }

  #end(connections: readonly Promise<Connection>[], folder: string | undefined): void {
    const all = connections.map((connection) => connection.then((one) => one.close()).catch(() => undefined));
    const ended = Promise.all(all).then(() => {
      if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
      this.#ending.delete(ended);
    });
    this.#ending.add(ended);
  }

  /** Opens a connection and checks that the server's tools are those of the plan. */
  async #connection(owner: Owner, name: string): Promise<Connection> {
    const { connections, seen } = owner;
    for (;;) {
      const opening = connections.get(name) ?? this.#open(owner, name);
      const forget = () => connections.get(name) === opening && connections.delete(name);
      connections.set(name, opening);
      // After a failure the next call tries again.
      const connection = await opening.catch((error: unknown) => {
        forget();
        throw error;
      });
      // A rollout whose own server died has ended. A shared server is restarted by the next call.
      if (!connection.failure || this.#plan.scope === "rollout") {
        if (connection.toolsChanged) await this.#check(connection);
        return connection;
      }
      if (forget()) seen("server_restarted");
    }
  }

  async #open({ label, folder, seen }: Owner, name: string): Promise<Connection> {
    const { servers, logs, startSeconds } = this.#plan;
    const server = servers.find((one) => one.name === name);
    if (!server) throw new Error(`there is no MCP server ${name}`);
    const here = inFolder(server, folder ?? "");
    const connection = await Connection.open({ server: here, logs, label, startSeconds });
    await this.#check(connection);
    seen("stray_output", connection.takeStrayLines());
    return connection;
  }

  async #check(connection: Connection): Promise<void> {
    const { name } = connection.server;
    const planned = this.#plan.tools.filter(({ server }) => server === name);
    const changed = changedTools(planned, await connection.tools());
    if (!changed) return;
    const failure = new ServerFailure("tools_changed", name, changed);
    connection.giveUp(failure);
    throw failure;
  }
}
