/** Starts hone's commands as a user does, for `yarn gpu-check`. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { MetricsLine } from "../../src/core/run/records.js";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { output } from "../llama-tools.js";

const cli = join(packageRoot, "dist/src/cli.js");

/** The result of a command under --json, also of one that ends in an error after it. @throws HoneError with its last line without one */
export async function hone(folder: string, ...args: string[]): Promise<Record<string, unknown>> {
  const { code, text } = await output(process.execPath, [cli, ...args, "--json"], { cwd: folder });
  const lines = text.trim().split("\n");
  const json = lines.findLast((line) => line.startsWith("{"));
  const { error, ...result } = json === undefined ? {} : (JSON.parse(json) as Record<string, unknown>);
  if (json !== undefined && (error === undefined || Object.keys(result).length > 0)) return { exit: code, ...result };
  throw new HoneError(`${args[0]} ended with code ${code}: ${lines.at(-1)}`);
}

/** The lines of `metrics.jsonl` that a run wrote, one for each step; at least one. */
export const metricsOf = (run: string): MetricsLine[] =>
  readFileSync(join(run, "metrics.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as MetricsLine);

export interface Started {
  /** Id of the process, and of its process group. */
  readonly pid: number;
  /** Resolves when its output matches; rejects when it ends before. */
  prints(text: RegExp): Promise<void>;
  kill(): Promise<void>;
}

export function startHone(folder: string, ...args: string[]): Started {
  const child = spawn(process.execPath, [cli, ...args], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  let onOutput: () => void = () => undefined;
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (part: string) => {
      text += part;
      onOutput();
    });
  }
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  return {
    pid: child.pid as number,
    prints: (wanted) =>
      new Promise((resolve, reject) => {
        onOutput = () => wanted.test(text) && resolve();
        onOutput();
        void ended.then(() => reject(new HoneError(`${args[0]} ended: ${text.trim().split("\n").at(-1)}`)));
      }),
    kill: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
