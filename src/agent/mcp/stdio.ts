/** MCP's stdio transport over a guarded program: one JSON message per line. Other lines go to the log. */
import { existsSync } from "node:fs";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { ServerSpec } from "../../core/task/servers.js";
import { withDigits } from "../../core/util/json.js";
import { isFields, parsed } from "../../serve/openai/fields.js";
import { type Guarded, programOf, startGuarded, whyNoProgram } from "./guarded.js";
import type { ServerLog } from "./log.js";

/** Maximum size of a message in MiB of characters; a longer one is a defect. */
const MOST = 64;
/** Maximum number of logged characters of a stray line. */
const SHOWN = 200;

export type StdioSpec = Extract<ServerSpec, { kind: "stdio" }>;

/**
 * Variables that every program inherits; others must be in the server's entry, so that keys do not reach all servers.
 */
const inherited = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** Why the program is unusable. */
  reason: { problem: "server_not_started" | "server_died" | "message_too_long"; what: string } | undefined;
  readonly #spec: StdioSpec;
  readonly #log: ServerLog;
  readonly #onBytes: () => void;
  #program: Guarded | undefined;
  /** The line that has not ended. */
  #rest = "";
  #closing = false;
  #strayLines = 0;

  /** @param onBytes called when the program has written something */
  constructor(spec: StdioSpec, log: ServerLog, onBytes: () => void) {
    this.#spec = spec;
    this.#log = log;
    this.#onBytes = onBytes;
  }

  async start(): Promise<void> {
    const { command, args, env: own, cwd } = this.#spec;
    const env = { ...Object.fromEntries(inherited.map((name) => [name, process.env[name]])), ...own };
    const refuse = (why: string): never => {
      this.reason = { problem: "server_not_started", what: `was not started: ${why}` };
      throw new Error(why);
    };
    if (!existsSync(cwd)) refuse(`there is no folder ${cwd} to start it in`);
    const path = programOf(command, cwd, env.PATH) ?? refuse(whyNoProgram(command, cwd));
    const program = startGuarded(path, args, { cwd, env });
    this.#program = program;
    for (const stream of [program.stdout, program.stderr]) stream.setEncoding("utf8").on("data", this.#onBytes);
    program.stdout.on("data", (text: string) => this.#read(text));
    program.stderr.on("data", (text: string) => this.#log.write(text));
    const { process: child } = program;
    // At "exit" the last lines may still be buffered; at "close" the pipes are empty.
    child.once("close", (code, signal) => {
      this.#ended("server_died", signal === null ? `ended with code ${code}` : `was ended by ${signal}`);
    });
    child.once("error", (error) => this.#ended("server_not_started", `was not started: ${error.message}`));
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const program = this.#program;
    if (!program || this.reason || this.#closing) throw new Error("the server has ended");
    // The stream buffers what the program has not read; the caller's deadline covers a missing answer.
    program.stdin.write(`${withDigits(JSON.stringify(message))}\n`);
  }

  /** Number of lines on stdout that were not messages, since it was last asked for. */
  takeStrayLines(): number {
    const count = this.#strayLines;
    this.#strayLines = 0;
    return count;
  }

  /** Resolves when no process of the program is left. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.#program?.end();
  }

  #ended(problem: NonNullable<StdioTransport["reason"]>["problem"], what: string): void {
    this.reason ??= { problem, what };
    this.onclose?.();
  }

  #read(text: string): void {
    if (this.reason) return;
    this.#rest += text;
    if (text.includes("\n")) {
      const lines = this.#rest.split("\n");
      this.#rest = lines.pop() as string;
      for (const line of lines) this.#line(line);
    }
    if (this.#rest.length <= MOST * 1_048_576) return;
    this.#rest = "";
    void this.close();
    this.#ended("message_too_long", `wrote a message of more than ${MOST} MiB`);
  }

  #line(line: string): void {
    if (line.trim() === "") return;
    const message = parsed(line);
    if (isFields(message) && message.jsonrpc === "2.0") {
      this.onmessage?.(message as JSONRPCMessage);
      return;
    }
    // Many programs print a greeting to stdout; this is not a failure.
    this.#strayLines++;
    this.#log.note(`(stdout) ${line.slice(0, SHOWN)}`);
  }
}
