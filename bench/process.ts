/** A program that a bench runs in a process of its own, and what it needs. */
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { HoneError } from "../src/core/util/errors.js";
import { packageRoot } from "../src/core/util/paths.js";

/**
 * Runs a program to its end. Returns the last line of its output, its seconds, and the most memory of it and its children
 * at one time, in bytes (proportional set size, looked at twice a second; Linux alone tells it, elsewhere it is 0).
 *
 * @throws HoneError when it fails
 */
export async function runMeasured(command: string, args: readonly string[]) {
  const started = performance.now();
  const child = spawn(command, args, { cwd: packageRoot, stdio: ["ignore", "pipe", "inherit"] });
  let [output, peak] = ["", 0];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const watch = setInterval(() => {
    peak = Math.max(peak, memoryOf(child.pid as number));
  }, 500);
  const code = await new Promise<number | null>((resolveCode, reject) => {
    child.once("error", reject);
    child.once("close", resolveCode);
  });
  clearInterval(watch);
  if (code !== 0) throw new HoneError(`${command} ${args.slice(0, 3).join(" ")} failed (${code})`);
  return { line: output.trimEnd().split("\n").at(-1) ?? "", seconds: (performance.now() - started) / 1000, peak };
}

function memoryOf(pid: number): number {
  try {
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
    const own = 1024 * Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0);
    const threads = readdirSync(`/proc/${pid}/task`);
    const children = threads.flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
    );
    return children.reduce((sum, child) => sum + memoryOf(child), own);
  } catch {
    // It has ended meanwhile.
    return 0;
  }
}
