/** MCP's stdio transport over a guarded program: one JSON message per line. Other lines go to the log. */
import { existsSync } from "node:fs";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { ServerSpec } from "../../core/task/servers.js";
import { withDigits } from "../../core/util/json.js";
import { isFields, parsed } from "../../serve/openai/fields.js";
import { type Guarded, programOf, startGuarded, whyNoProgram } from "./guarded.js";
import type { ServerLog } from "./log.js";

/** Maximum size of a message in bytes; a longer one is a defect. */
const MOST_BYTES = 64 * 1_048_576;
/** Maximum number of logged characters of a stray line. */
const SHOWN = 200;
const NEWLINE = 10;

export type StdioSpec = Extract<ServerSpec, { kind: "stdio" }>;

/**
 * Variables that every program inherits; others must be in the server's entry, so that keys do not reach all servers.
 */
const inherited = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** Number of lines on stdout that were not messages. */
  strayLines = 0;
  /** Why the program is unusable. */
  reason: { problem: "server_not_started" | "server_died" | "message_too_long"; what: string } | undefined;
  readonly #spec: StdioSpec;
  readonly #log: ServerLog;
  readonly #onBytes: () => void;
  #program: Guarded | undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #closing = false;

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
    for (const stream of [program.stdout, program.stderr]) stream.on("data", this.#onBytes);
    program.stdout.on("data", (chunk: Buffer) => this.#read(chunk));
    program.stderr.on("data", (chunk: Buffer) => this.#log.write(chunk));
    const { process: child } = program;
    // At "exit" the last lines may still be buffered; at "close" the pipes are empty.
    child.once("close", (code, signal) => {
      const how = signal === null ? `ended with code ${code}` : `was ended by ${signal}`;
      this.reason ??= { problem: "server_died", what: how };
      this.onclose?.();
    });
    child.once("error", (error) => {
      this.reason ??= { problem: "server_not_started", what: `was not started: ${error.message}` };
      this.onclose?.();
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const program = this.#program;
    if (!program || this.reason || this.#closing) throw new Error("the server has ended");
    // The stream buffers what the program has not read; the caller's deadline covers a missing answer.
    program.stdin.write(`${withDigits(JSON.stringify(message))}\n`);
  }

  /** Resolves when no process of the program is left. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.#program?.end();
  }

  #read(chunk: Buffer): void {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      this.#chunks.push(chunk.subarray(from, at));
      const line = Buffer.concat(this.#chunks).toString("utf8");
      this.#chunks = [];
      this.#bytes = 0;
      from = at + 1;
      this.#line(line);
    }
    const rest = chunk.subarray(from);
    if (rest.length === 0 || this.reason) return;
    this.#chunks.push(rest);
    this.#bytes += rest.length;
    if (this.#bytes <= MOST_BYTES) return;
    this.#chunks = [];
    const what = `wrote a message of more than ${MOST_BYTES / 1_048_576} MiB`;
    this.reason = { problem: "message_too_long", what };
    void this.close();
    this.onclose?.();
  }

  #line(line: string): void {
    if (line.trim() === "") return;
    const message = parsed(line);
    if (isFields(message) && message.jsonrpc === "2.0") {
      this.onmessage?.(message as JSONRPCMessage);
      return;
    }
    // Many programs print a greeting to stdout; this is not a failure.
    this.strayLines++;
    this.#log.note(`(stdout) ${line.slice(0, SHOWN)}`);
  }
}
