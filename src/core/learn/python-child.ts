/**
 * A Python program of native/ with which hone exchanges lines of JSON: the program reads its file descriptor 3 and writes 4. What
 * it and its libraries print goes to a log.
 *
 * It leads a process group of its own, so that processes it starts can be ended with it. Three things end the group: `kill`, the
 * exit of this process in any way that runs code, and (when this process is killed outright) the program's guardian, which sees
 * its control pipe close (native/learner/lifeline.py).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, fstatSync, mkdirSync, openSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { OpenFile } from "../util/files.js";
import { packageRoot } from "../util/paths.js";
import { OWN_PYTHON } from "../util/run.js";

/** After the program's exit its last lines may still be under way. Milliseconds. */
const DRAIN_MS = 500;
const TAIL_BYTES = 8192;

/** How it ended: it never started, or its exit code, or the signal that ended it. */
export type ChildEnd =
  | { readonly error: NodeJS.ErrnoException }
  | { readonly error?: undefined; readonly code: number | null; readonly signal: NodeJS.Signals | null };

export interface ChildOptions {
  readonly python: string;
  /** Arguments of Python. */
  readonly args: readonly string[];
  readonly logFile: string;
  /** In addition to this process's own. */
  readonly env?: NodeJS.ProcessEnv;
  readonly onLine: (line: string) => void;
  /** Called once, after its last line. */
  readonly onEnd: (end: ChildEnd) => void;
}

export class PythonChild {
  /** Resolves after `onEnd`. */
  readonly ended: Promise<void>;
  readonly #process: ChildProcess;
  readonly #control: Writable;
  readonly #logFile: string;
  readonly #logStart: number;
  readonly #kill = () => this.kill();

  constructor({ python, args, logFile, env, onLine, onEnd }: ChildOptions) {
    this.#logFile = logFile;
    mkdirSync(dirname(logFile), { recursive: true });
    const log = openSync(logFile, "a");
    this.#logStart = fstatSync(log).size;
    this.#process = spawn(python, args, {
      detached: true,
      stdio: ["ignore", log, log, "pipe", "pipe"],
      env: {
        ...process.env,
        ...OWN_PYTHON,
        PYTHONPATH: join(packageRoot, "native"),
        PYTHONUNBUFFERED: "1",
        // Images and shells set this for scripts of their own. Here each start would compile PyTorch's modules anew, for half a minute.
        PYTHONDONTWRITEBYTECODE: "",
        // Modules of the working folder do not come before these.
        PYTHONSAFEPATH: "1",
        ...env,
      },
    });
    closeSync(log);
    this.#control = this.#process.stdio[3] as Writable;
    const reports = this.#process.stdio[4] as Readable;
    // A write to a program that has just died is reported by its end.
    this.#control.on("error", () => undefined);
    reports.on("error", () => undefined);
    const drained = new Promise<void>((resolve) => reports.once("close", resolve));
    createInterface({ input: reports }).on("line", onLine);
    this.ended = new Promise((resolve) => {
      const end = (how: ChildEnd) => {
        process.off("exit", this.#kill);
        onEnd(how);
        resolve();
      };
      this.#process.once("error", (error) => end({ error }));
      this.#process.once("exit", async (code, signal) => {
        // Processes that it started must not outlive it.
        this.kill();
        await Promise.race([drained, new Promise((done) => setTimeout(done, DRAIN_MS))]);
        end({ code, signal });
      });
    });
    process.on("exit", this.#kill);
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Whether `finish` was called. */
  get finished(): boolean {
    return this.#control.writableEnded;
  }

  /** Sends one line. Nothing after `finish`. */
  send(message: object): void {
    if (!this.finished) this.#control.write(`${JSON.stringify(message)}\n`);
  }

  /** Closes the control pipe: what was sent is the last. */
  finish(): void {
    this.#control.end();
  }

  /** Ends the process group at once. */
  kill(): void {
    const { pid } = this.#process;
    if (pid === undefined) return;
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // ESRCH: the group is gone already.
    }
  }

  /** The last lines that this process wrote to the log; none where it cannot be read. */
  tail(most: number): string[] {
    try {
      const text = endOf(this.#logFile, TAIL_BYTES, this.#logStart);
      const lines = text.split("\n").filter((line) => line.trim() !== "");
      return lines.slice(-most);
    } catch {
      // The log was removed: the error that its lines belong to must still be told.
      return [];
    }
  }
}

/** The last bytes of a file, which may have grown to gigabytes; from `start` on. */
export function endOf(path: string, most: number, start = 0): string {
  using file = new OpenFile(path);
  const { size } = file;
  const from = Math.max(start, size - most);
  return file.bytes(from, Math.max(0, size - from)).toString("utf8");
}
