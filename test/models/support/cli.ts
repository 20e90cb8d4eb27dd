/** The built command line in a home of its own, as a user runs it. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { packageRoot } from "../../../src/core/util/paths.js";

export interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export async function runHone(home: string, args: readonly string[], env: Record<string, string>): Promise<Ran> {
  const child = spawn(process.execPath, [join(packageRoot, "dist/src/cli.js"), ...args], {
    cwd: home,
    env: { PATH: process.env.PATH, HOME: home, ...env },
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const status = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { status, stdout, stderr };
}

/** One step of two rollouts of one short turn, as options of `hone train`. */
export const smallRun: readonly string[] = [
  "--groups-per-step",
  "1",
  "--group-size",
  "2",
  "--max-tokens",
  "8",
  "--max-turns",
  "1",
  "--validate-n",
  "1",
];
