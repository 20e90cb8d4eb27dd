/** Duration and memory of `yarn build-db`, run in its own process. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";

export interface BuildFigures {
  read: number;
  imported: number;
  duplicates: number;
  seconds: number;
  messages_per_second: number;
  /** Of the whole process with its threads; null where the system does not report it (needs Linux). */
  peak_megabytes: number | null;
}

/** Peak resident size in kilobytes. */
function peakOf(pid: number | undefined): number | undefined {
  try {
    const line = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
    return line ? Number(line[1]) : undefined;
  } catch {
    // Not Linux, or the process has just ended.
    return undefined;
  }
}

export async function measureBuild(mailbox: string, questions: string, db: string): Promise<BuildFigures> {
  const args = [
    join(packageRoot, "dist/src/cli.js"),
    "build-db",
    "--db",
    db,
    "--from",
    mailbox,
    "--questions",
    questions,
  ];
  const child = spawn(process.execPath, [...args, "--json"], { stdio: ["ignore", "pipe", "pipe"] });
  let peak: number | undefined;
  const watch = setInterval(() => {
    peak = peakOf(child.pid) ?? peak;
  }, 50);
  let output = "";
  let complaint = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  child.stderr.on("data", (chunk) => {
    complaint = (complaint + chunk).slice(-1000);
  });
  const status = await new Promise((resolve) => child.on("close", resolve));
  clearInterval(watch);
  if (status !== 0) throw new HoneError(`build-db failed: ${complaint}`);
  const { read, imported, duplicates, seconds } = JSON.parse(output.trim().split("\n").at(-1) ?? "") as BuildFigures;
  return {
    read,
    imported,
    duplicates,
    seconds,
    messages_per_second: Math.round(read / seconds),
    peak_megabytes: peak === undefined ? null : Math.round(peak / 1024),
  };
}
