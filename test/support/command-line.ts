/**
 * The built command line in a process that stays for all commands of a test file: to load it anew takes a second of computing. What
 * concerns the process itself (signals, its end, its environment) is tested on one of its own.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";

export interface Said {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Stands where the output of a command ends: the message with its status may arrive before that. */
const MARK = "\u0004";

export class CommandLine {
  readonly #env: NodeJS.ProcessEnv;
  #child: ChildProcess | undefined;
  #said = { stdout: "", stderr: "" };
  #heard = () => undefined as unknown;

  /** @param env variables that its commands have besides */
  constructor(env: NodeJS.ProcessEnv = {}) {
    this.#env = env;
  }

  async #start(): Promise<ChildProcess> {
    const child = fork(join(packageRoot, "test/support/command-line-process.mjs"), {
      env: { ...process.env, ...this.#env },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    for (const name of ["stdout", "stderr"] as const) {
      child[name]?.setEncoding("utf8").on("data", (text: string) => {
        this.#said[name] += text;
        this.#heard();
      });
    }
    await once(child, "message");
    return child;
  }

  /** Runs a command in a folder, one after the other. One that ends its process gives its exit code, too. */
  async run(folder: string, ...args: string[]): Promise<Said> {
    this.#child ??= await this.#start();
    const child = this.#child;
    this.#said = { stdout: "", stderr: "" };
    const ended = new Promise<{ status: number | null; lost: boolean }>((resolve) => {
      child.once("message", (status: number) => resolve({ status, lost: false }));
      child.once("close", (status) => resolve({ status, lost: true }));
    });
    child.send({ folder, args, mark: MARK });
    const { status, lost } = await ended;
    child.removeAllListeners("message").removeAllListeners("close");
    if (lost) this.#child = undefined;
    else {
      const whole = () => Object.values(this.#said).every((text) => text.endsWith(MARK));
      await new Promise<void>((resolve) => {
        this.#heard = () => whole() && resolve();
        this.#heard();
      });
    }
    const { stdout, stderr } = this.#said;
    return { status, stdout: stdout.replace(MARK, ""), stderr: stderr.replace(MARK, "") };
  }

  close(): void {
    this.#child?.kill("SIGKILL");
  }
}
