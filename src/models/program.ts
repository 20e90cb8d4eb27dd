/** Runs external programs to their end. */
import { spawn } from "node:child_process";
import type { ModelIo } from "./io.js";

export interface Outcome {
  readonly code: number | null;
  /** The last lines of its output. */
  readonly said: readonly string[];
}

/** Runs a program without network access. Kills it when the signal is aborted. */
export async function run(
  program: string,
  args: readonly string[],
  { signal }: ModelIo,
  onLine: (line: string) => void = () => undefined,
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  signal?.throwIfAborted();
  const { PYTHONHOME: _home, PYTHONPATH: _path, ...inherited } = process.env;
  const said: string[] = [];
  return await new Promise<Outcome>((settle, reject) => {
    const child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...inherited, HF_HUB_OFFLINE: "1", PYTHONUNBUFFERED: "1", TOKENIZERS_PARALLELISM: "false", ...env },
    });
    const stop = () => void child.kill("SIGKILL");
    signal?.addEventListener("abort", stop, { once: true });
    for (const stream of [child.stdout, child.stderr]) {
      let rest = "";
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        // A progress bar ends its lines with a carriage return.
        const lines = (rest + chunk).split(/[\r\n]+/);
        rest = lines.pop() ?? "";
        for (const line of lines.filter((one) => one.trim() !== "")) {
          said.push(line);
          if (said.length > 50) said.shift();
          onLine(line);
        }
      });
    }
    child.once("error", (error) => settle({ code: 127, said: [error.message] }));
    child.once("close", (code) => {
      signal?.removeEventListener("abort", stop);
      if (signal?.aborted) reject(signal.reason);
      else settle({ code, said });
    });
  });
}
