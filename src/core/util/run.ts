/** Programs that are run to their end. */
import type { Readable } from "node:stream";
import { onAbort } from "./signals.js";
import { spawnTied } from "./tied.js";

export type OnLine = (line: string) => void;

export interface Finished {
  /** Exit code; 127 when the program does not exist, 128 when a signal ended it. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunChoice {
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** In place of this process's variables. */
  readonly inherits?: NodeJS.ProcessEnv | undefined;
  /** Gets the lines of both outputs. */
  readonly onLine?: OnLine | undefined;
  /** Ends the program, and what it has started, at once when aborted. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * The environment of a Python that is not the shell's: modules of another would come before its own, 2 of PYTHONOPTIMIZE leaves out
 * the docstrings, without which transformers is not imported, and Node's names of files are UTF-8 whatever the shell's language.
 */
export const OWN_PYTHON = { PYTHONPATH: undefined, PYTHONHOME: undefined, PYTHONOPTIMIZE: undefined, PYTHONUTF8: "1" };

/** Runs a program to its end, at the latest this process's. Never throws: a program that does not exist is an exit code too. */
export function run(
  program: string,
  args: readonly string[],
  { env, inherits = process.env, onLine, signal }: RunChoice = {},
): Promise<Finished> {
  const inherited = { ...inherits, ...OWN_PYTHON, PYTHONDONTWRITEBYTECODE: undefined };
  return new Promise((resolve) => {
    const { process: child, kill } = spawnTied(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      // An abort ends what the program has started too, such as the Python behind a pyenv's shim. Without a signal Ctrl-C has
      // to reach pip and uv itself.
      ownGroup: signal !== undefined,
      // Nor may modules of the working folder.
      env: { ...inherited, PYTHONNOUSERSITE: "1", PYTHONSAFEPATH: "1", ...env },
    });
    const aborting = onAbort(signal, kill);
    const text = { stdout: "", stderr: "" };
    for (const stream of ["stdout", "stderr"] as const) {
      let rest = "";
      (child[stream] as Readable).setEncoding("utf8").on("data", (chunk: string) => {
        text[stream] += chunk;
        // A progress bar ends its lines with a carriage return.
        const lines = (rest + chunk).split(/[\r\n]+/);
        rest = lines.pop() ?? "";
        for (const line of lines) onLine?.(line.trim());
      });
    }
    const end = (code: number, stderr: string) => {
      aborting[Symbol.dispose]();
      resolve({ code, stdout: text.stdout, stderr });
    };
    child.once("error", (error) => end(127, error.message));
    child.once("close", (code) => end(code ?? 128, text.stderr));
  });
}

/** Of a program's output: where it failed, usually the reason. */
export const lastLine = (text: string) => text.trim().split("\n").at(-1) ?? "";
