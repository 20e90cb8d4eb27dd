/**
 * One connection to an MCP server, by stdio or HTTP. Rejects with {@link ServerFailure} when the server fails, and with
 * ToolError when the server reports an error of the call.
 */
import type { Client, Tool, Transport } from "@modelcontextprotocol/client";
import { z } from "zod";
import type { ServerProblem, ServerSpec } from "../../core/task/servers.js";
import { ToolError } from "../../core/task/task.js";
import { messageOf } from "../../core/util/errors.js";
import { withDigits, withMarks } from "../../core/util/json.js";
import { anyOf, unlessAborted } from "../../core/util/signals.js";
import { cutText } from "../../core/util/text.js";
import { TimeLimit } from "../../core/util/time-limit.js";
import { shownUrl } from "../../serve/openai/server.js";
import { ServerFailure } from "./errors.js";
import { ServerLog } from "./log.js";
import type { CallResult } from "./result.js";
import { StdioTransport } from "./stdio.js";

export interface ConnectionOptions {
  readonly server: ServerSpec;
  /** Folder of the servers' logs. */
  readonly logs: string;
  /** Name of the connection's owner in the log. */
  readonly label: string;
  /** Seconds that the server may be silent until its first answer. */
  readonly startSeconds: number;
}

/** A tool as its server lists it. */
export interface ListedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** The tool runs only as a task of the protocol, which returns no result to the call itself. */
  readonly taskOnly: boolean;
  /** The server says that it changes nothing (`readOnlyHint`). */
  readonly readOnly: boolean;
  /** Why it cannot be used, where the list does not describe it as a tool. */
  readonly problem?: string;
}

/** Pages of a list of tools at most. */
const MOST_PAGES = 64;

/** A page of the list: the library's own form refuses all tools for one. */
const pageSchema = z.looseObject({ tools: z.array(z.unknown()), nextCursor: z.string().nullish() });
const toolSchema = z
  .object({
    name: z.string().min(1).optional().catch(undefined),
    description: z.string().catch(""),
    inputSchema: z.record(z.string(), z.unknown()).optional().catch(undefined),
    execution: z.object({ taskSupport: z.unknown() }).optional().catch(undefined),
    annotations: z.object({ readOnlyHint: z.unknown() }).optional().catch(undefined),
  })
  .catch({ description: "" });

/** A tool as the list has it at a place, which may be wrong. */
function listedTool(entry: unknown, place: number): ListedTool {
  const { name, description, inputSchema, execution, annotations } = toolSchema.parse(entry);
  const problem = name === undefined ? "it has no name" : inputSchema ? undefined : "its inputSchema is no object";
  return {
    name: name ?? `number ${place + 1} of the list`,
    description,
    inputSchema: inputSchema ?? {},
    taskOnly: execution?.taskSupport === "required",
    readOnly: annotations?.readOnlyHint === true,
    ...(problem === undefined ? {} : { problem }),
  };
}

/** The rollout sets the deadlines of calls. */
const NEVER = 2 ** 31 - 1;
/** Times the seconds of silence: a server that writes on and on has to answer by then. */
const WRITES = 10;
/** Characters of an error of the protocol that are shown. */
const MOST_WORDS = 500;
/** Timeout in seconds of the ping sent to a server after a call timed out. */
const PING = 5;

class Silence extends Error {}

/** The library writes messages by `JSON.stringify`. */
const fetchExactly: typeof fetch = (to, init) =>
  fetch(to, typeof init?.body === "string" ? { ...init, body: withDigits(init.body) } : init);

export class Connection {
  readonly server: ServerSpec;
  readonly log: ServerLog;
  /** The server's own name and version; set once it is connected. */
  version = "";
  /** Whether the server has notified a change of its tools. */
  toolsChanged = false;
  readonly #options: ConnectionOptions;
  /** Tools as listed, by name. */
  readonly #definitions = new Map<string, Tool>();
  #client!: Client;
  #transport!: Transport;
  #failure: ServerFailure | undefined;
  #closed = false;
  /** Of the answers that are waited for; what the server writes renews them. */
  readonly #limits = new Set<TimeLimit>();

  private constructor(options: ConnectionOptions) {
    this.server = options.server;
    this.log = new ServerLog(options.logs, options.server.name, options.label);
    this.#options = options;
  }

  static async open(options: ConnectionOptions): Promise<Connection> {
    const connection = new Connection(options);
    await connection.#open();
    return connection;
  }

  /** Why the connection is unusable, if it is. */
  get failure(): ServerFailure | undefined {
    return this.#failure;
  }

  /** Number of lines on stdout that were not messages, since it was last asked for. */
  takeStrayLines(): number {
    return this.#transport instanceof StdioTransport ? this.#transport.takeStrayLines() : 0;
  }

  async #open(): Promise<void> {
    const { server, startSeconds } = this.#options;
    // Imported when a server is used, since loading the library takes 0.1 s.
    const mcp = await import("@modelcontextprotocol/client");
    if (server.kind === "stdio") {
      this.#transport = new StdioTransport(server, this.log, () => {
        for (const limit of this.#limits) limit.renew();
      });
    } else {
      const at = new URL(server.url);
      const settings = { requestInit: { headers: { ...server.headers } }, fetch: fetchExactly };
      this.#transport =
        server.kind === "http"
          ? new mcp.StreamableHTTPClientTransport(at, settings)
          : new mcp.SSEClientTransport(at, settings);
    }
    const client = new mcp.Client({ name: "hone", version: "1" });
    this.#client = client;
    client.onerror = (error) => this.log.note(`(protocol) ${this.#wordsOf(error)}`);
    client.setNotificationHandler("notifications/tools/list_changed", () => {
      this.toolsChanged = true;
    });
    try {
      await this.#heard(startSeconds, (within) => client.connect(this.#transport, within));
    } catch (error) {
      const failure =
        error instanceof Silence
          ? this.#failed("server_silent", `${error.message} of its start`)
          : this.#died(error, "server_not_started");
      void this.close();
      throw failure;
    }
    if (server.kind === "http") this.#watchStreams();
    const { name = "", version = "" } = client.getServerVersion() ?? {};
    this.version = `${name} ${version}`.trim();
  }

  /** A request waits for ever where the stream of its answer ends before that, as that of a server which has ended. */
  #watchStreams(): void {
    const transport = this.#transport;
    const { onmessage } = transport;
    const send = transport.send.bind(transport);
    const waiting = new Set<unknown>();
    transport.onmessage = (message, extra) => {
      // A server's own requests have numbers of their own.
      if (!("method" in message)) waiting.delete(message.id);
      onmessage?.(message, extra);
    };
    transport.send = (message, options) => {
      const { id } = message as { id?: unknown };
      if (id !== undefined) waiting.add(id);
      const onRequestStreamEnd = () => {
        if (waiting.delete(id)) this.giveUp(this.#died(new Error("it ended the stream of an answer"), "server_died"));
      };
      return send(message, { ...options, onRequestStreamEnd });
    };
  }

  /** All that the server lists; of tools with one name the first can be called. */
  async tools(): Promise<ListedTool[]> {
    this.toolsChanged = false;
    if (!this.#client.getServerCapabilities()?.tools) return [];
    try {
      const entries = await this.#heard(this.#options.startSeconds, (within) => this.#pages(within));
      this.#definitions.clear();
      const names = new Set<string>();
      return entries.map((entry, place) => {
        const tool = listedTool(entry, place);
        if (tool.problem !== undefined) return tool;
        if (names.has(tool.name)) return { ...tool, problem: "another tool of the list has its name" };
        names.add(tool.name);
        // What a tool returns is not held to its schema.
        this.#definitions.set(tool.name, { ...(entry as Tool), outputSchema: undefined } as Tool);
        return tool;
      });
    } catch (error) {
      throw this.#died(error, "server_silent", "did not list its tools: ");
    }
  }

  async #pages(within: { timeout: number; signal: AbortSignal }): Promise<unknown[]> {
    const all: unknown[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < MOST_PAGES; page++) {
      const request = { method: "tools/list", ...(cursor === undefined ? {} : { params: { cursor } }) };
      const { tools, nextCursor } = await this.#client.request(request, pageSchema, within);
      all.push(...tools);
      if (nextCursor == null || nextCursor === "") return all;
      cursor = nextCursor;
    }
    throw new Error(`the list has more than ${MOST_PAGES} pages`);
  }

  /** @throws ToolError with the error that the server reports */
  async call(name: string, args: Record<string, unknown>, signal: AbortSignal): Promise<CallResult> {
    if (this.#failure) throw this.#failure;
    const toolDefinition = this.#definitions.get(name);
    try {
      return (await this.#client.callTool(
        { name, arguments: withMarks(args) },
        { signal, timeout: NEVER, ...(toolDefinition ? { toolDefinition } : {}) },
      )) as CallResult;
    } catch (error) {
      if (signal.aborted) {
        void this.#seeWhetherItLives();
        throw signal.reason;
      }
      const { ProtocolError, SdkError } = await import("@modelcontextprotocol/client");
      if (ProtocolError.isInstance(error)) throw new ToolError(error.message);
      if (SdkError.isInstance(error) && error.code === "INVALID_RESULT") {
        throw new ToolError(`the answer of the tool ${name} was no valid result`);
      }
      throw this.#died(error, "server_died");
    }
  }

  /** Ends the connection and records the reason. */
  giveUp(failure: ServerFailure): void {
    this.#failure ??= failure;
    void this.close();
  }

  /** Resolves when no process of the server is left. Without an earlier failure, the end itself is recorded as one. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#failure ??= new ServerFailure("server_died", this.server.name, "was ended");
    const transport = this.#transport as Transport & { terminateSession?: () => Promise<void> };
    // A server may keep a session's state until it is told to end it; one that is gone cannot be told.
    const told = transport.terminateSession?.().catch(() => undefined);
    await Promise.race([told, new Promise((done) => setTimeout(done, 1000).unref())]);
    try {
      await this.#client.close();
      await transport.close();
    } catch {
      // The session had already ended.
    }
  }

  /** @throws Silence when the server neither answers nor writes anything for so long, or writes far longer */
  async #heard<T>(seconds: number, ask: (within: { timeout: number; signal: AbortSignal }) => Promise<T>): Promise<T> {
    const most = WRITES * seconds;
    using limit = new TimeLimit(
      seconds,
      () => new Silence(`neither answered nor wrote anything for ${seconds} seconds`),
    );
    using all = new TimeLimit(most, () => new Silence(`wrote, but did not answer, for ${most} seconds`));
    this.#limits.add(limit);
    using silent = anyOf([limit.signal, all.signal]);
    const { signal } = silent;
    try {
      // Without a response the transport ignores the signal.
      return await unlessAborted(ask({ timeout: NEVER, signal }), signal);
    } finally {
      this.#limits.delete(limit);
    }
  }

  async #seeWhetherItLives(): Promise<void> {
    try {
      await this.#heard(PING, (within) => this.#client.ping(within));
    } catch {
      this.#failed("server_silent", `gave no sign of life for ${PING} seconds after a call that took too long`);
      await this.close();
    }
  }

  /** @param before prefix of the reason, where the transport has none */
  #died(error: unknown, otherwise: ServerProblem, before = ""): ServerFailure {
    const transport = this.#transport;
    const reason = transport instanceof StdioTransport ? transport.reason : undefined;
    if (reason) {
      const early = reason.problem === "server_died" && otherwise === "server_not_started";
      return this.#failed(early ? otherwise : reason.problem, reason.what);
    }
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
    const { server } = this;
    const where = server.kind === "stdio" ? "" : ` at ${shownUrl(server.url)}`;
    const what = otherwise === "server_not_started" ? `does not answer${where}: ` : before || `failed${where}: `;
    return this.#failed(otherwise, `${what}${this.#wordsOf(error)}${cause}`);
  }

  #wordsOf(error: unknown): string {
    const { server } = this;
    const [line = ""] = messageOf(error).split("\n");
    if (server.kind === "stdio") return line;
    const { status } = (error ?? {}) as { status?: unknown };
    // The library's words have the body of such an answer, which may be empty or a page, and not its status.
    const known = typeof status === "number" ? `HTTP ${status}: ` : "";
    return cutText(`${known}${line.replaceAll(server.url, shownUrl(server.url))}`, MOST_WORDS);
  }

  #failed(problem: ServerProblem, what: string): ServerFailure {
    const tail = this.log.tail();
    const said = tail ? `; it wrote: ${tail.slice(-500)} (log: ${this.log.file})` : "";
    this.#failure ??= new ServerFailure(problem, this.server.name, `${what}${said}`);
    return this.#failure;
  }
}
