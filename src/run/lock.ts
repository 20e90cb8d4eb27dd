/**
 * One process owns a run directory. The lock is the operating system's, held through SQLite on an empty file: it ends
 * with its process however that ends, so there is no stale lock to judge, and a process id that was given out again
 * cannot be mistaken for the owner. `owner.json` beside it only tells who it is.
 */
import { readFileSync, rmSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { codeOf, HoneError, tryLock, writeDurably } from "../util/index.js";

const ownerSchema = z.object({ pid: z.number(), host: z.string(), since: z.string() });

export type Owner = z.output<typeof ownerSchema>;

export interface RunLock {
  /** Who owned the run before and ended without giving it back: killed, or cut off from power. */
  readonly previous: Owner | undefined;
  release(): void;
}

/** Undefined when nobody is named, or not legibly: the lock itself does not depend on it. */
function readOwner(file: string): Owner | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
  try {
    return ownerSchema.parse(JSON.parse(text));
  } catch {
    // A power cut may leave an unreadable file; whoever takes the lock writes it anew.
    return undefined;
  }
}

/** Milliseconds by which a clock that was corrected since may differ: a process cannot have noted a time before its start. */
const CLOCKS_APART = 60_000;

/** Hundredths of a second from the machine's start to the process's; NaN where that is not told, as outside Linux. */
function ticksOf(pid: number | "self"): number {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name, in parentheses, may have blanks in it; the start is the 20th field behind it (proc_pid_stat(5)).
    return Number(text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? Number.NaN);
  } catch {
    // Hidden, ended, or no Linux.
    return Number.NaN;
  }
}

/** When a process began, in milliseconds since 1970, reckoned from when this one did; NaN where that is not told. */
function startOf(pid: number): number {
  return Date.now() - 1000 * process.uptime() + 10 * (ticksOf(pid) - ticksOf("self"));
}

/**
 * The process of this machine that has the run, by its note; undefined where none lives. Readers ask this: taking the lock
 * to see whether it is free would refuse a run that starts at that moment.
 */
export function ownerOf(folder: string): Owner | undefined {
  const owner = readOwner(join(folder, "owner.json"));
  if (!owner || owner.host !== hostname()) return undefined;
  // A killed process leaves its note, and its id is given out again.
  if (startOf(owner.pid) > Date.parse(owner.since) + CLOCKS_APART) return undefined;
  try {
    process.kill(owner.pid, 0);
    return owner;
  } catch (error) {
    // Somebody else's process lives too.
    return codeOf(error) === "EPERM" ? owner : undefined;
  }
}

/** @throws HoneError naming the owner when a living process has the run */
export function lockRun(folder: string): RunLock {
  const ownerFile = join(folder, "owner.json");
  const lock = tryLock(join(folder, "lock"));
  if (!lock) {
    const owner = readOwner(ownerFile);
    const who = owner ? `process ${owner.pid} on ${owner.host} since ${owner.since}` : "another process";
    throw new HoneError(`the run ${folder} is in use by ${who}; wait until it ends, or give another --run`);
  }
  const previous = readOwner(ownerFile);
  const owner: Owner = { pid: process.pid, host: hostname(), since: new Date().toISOString() };
  writeDurably(ownerFile, `${JSON.stringify(owner)}\n`);
  return {
    previous,
    release() {
      rmSync(ownerFile, { force: true });
      lock.close();
    },
  };
}
