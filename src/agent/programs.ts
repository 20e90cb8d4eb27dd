/** Programs that a rollout runs: they end with it, and so do processes that they started (see src/agent/mcp/guarded.ts). */
import { once } from "node:events";
import { existsSync } from "node:fs";
import { ProgramError, type ProgramOptions, type Ran } from "../core/task/agent.js";
import { onAbort } from "../core/util/signals.js";
import { exceptionsIn } from "./exceptions.js";
import { type Guarded, programOf, startGuarded, whyNoProgram } from "./mcp/guarded.js";
import type { Output } from "./output.js";

/** Characters of a program's output that it may return; of more the end is kept. */
const MOST = 4 << 20;

/** The rollout's endpoint is on this machine: a proxy would not reach it, and would be told its key. */
function withoutProxy() {
  const { NO_PROXY, no_proxy = NO_PROXY } = process.env;
  const all = no_proxy === "*" ? no_proxy : [no_proxy, "127.0.0.1"].filter(Boolean).join(",");
  return { NO_PROXY: all, no_proxy: all };
}

export interface Surroundings {
  /** Variables that every program gets. */
  readonly env: Readonly<Record<string, string>>;
  readonly output: Output;
  readonly signal: AbortSignal;
}

export class Programs {
  readonly #surroundings: Surroundings;
  readonly #running = new Set<Guarded>();

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings;
  }

  async run(command: string, args: readonly string[] = [], options: ProgramOptions = {}): Promise<Ran> {
    const { env, output, signal } = this.#surroundings;
    const { cwd = process.cwd(), env: own = {}, input = "" } = options;
    signal.throwIfAborted();
    if (!existsSync(cwd)) throw new Error(`there is no folder ${cwd} to start ${command} in`);
    const program = programOf(command, cwd, own.PATH ?? process.env.PATH);
    if (!program) throw new Error(whyNoProgram(command, cwd));
    const guarded = startGuarded(program, args, { cwd, env: { ...process.env, ...withoutProxy(), ...env, ...own } });
    this.#running.add(guarded);
    const written = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      guarded[name].setEncoding("utf8").on("data", (text: string) => {
        written[name] = (written[name] + text).slice(-MOST);
        output.write(text);
      });
    }
    const closed = once(guarded.process, "close").catch(() => undefined);
    guarded.stdin.end(input);
    // `end` waits for processes that it left behind.
    using _stopping = onAbort(signal, () => void guarded.end());
    await closed;
    const { code, signal: by, error } = await guarded.exited;
    signal.throwIfAborted();
    if (code === 0) return written;
    if (error) throw new Error(`${command} was not started: ${error.message}`);
    const how = by === null ? `ended with code ${code}` : `was ended by ${by}`;
    const exceptions = code === null ? [] : exceptionsIn(written.stderr);
    const [first] = exceptions;
    // A shell's codes for what cannot be executed, an interpreter that is not there for example.
    const said = code === 126 || code === 127 ? (written.stderr.trim().split("\n").at(-1) ?? "") : "";
    const why = first ? `${first.names[0]}${first.message && `: ${first.message}`}` : said;
    const what = why === "" ? "" : `: ${why.slice(0, 300)}`;
    throw new ProgramError(`${[command, ...args].join(" ").slice(0, 200)} ${how}${what}`, code, exceptions);
  }

  /** Kept when nothing of them is left. */
  async end(): Promise<void> {
    await Promise.all([...this.#running].map((guarded) => guarded.end()));
    this.#running.clear();
  }
}
