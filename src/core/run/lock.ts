/**
 * One process owns a run directory. The lock is the operating system's, held through SQLite on an empty file: it ends
 * with its process even when that is killed, so no stale lock can exist, and a reused process id cannot be mistaken for
 * the owner. `owner.json` beside it is information only.
 */
import { readFileSync, rmSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { codeOf, HoneError } from "../util/errors.js";
import { writeDurably } from "../util/files.js";
import { tryLock } from "../util/lock.js";
import { isAlive, statOf } from "../util/processes.js";

const ownerSchema = z.object({
  pid: z.number(),
  host: z.string(),
  since: z.string(),
  /** Its start, as `statOf` has it; null where unknown. */
  ticks: z.number().nullish(),
});

export type Owner = z.output<typeof ownerSchema>;

export interface RunLock {
  /** Owner of the run that ended without releasing it: killed, or cut off from power. */
  readonly previous: Owner | undefined;
  release(): void;
}

/** Undefined when no owner is recorded or the record is unreadable: the lock itself does not depend on it. */
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
    // A power cut may leave an unreadable file; the next owner writes it anew.
    return undefined;
  }
}

/**
 * The living process of this machine that owns the run, according to owner.json; undefined if there is none. For readers:
 * taking the lock to test it would refuse a run that starts at that moment.
 */
export function ownerOf(folder: string): Owner | undefined {
  const owner = readOwner(join(folder, "owner.json"));
  if (!owner || owner.host !== hostname()) return undefined;
  // A killed process leaves its record, and its id is reused.
  const ticks = statOf(owner.pid)?.start;
  if (ticks !== undefined && ticks !== (owner.ticks ?? ticks)) return undefined;
  return isAlive(owner.pid) ? owner : undefined;
}

/** @throws HoneError naming the owner when a living process owns the run */
export function lockRun(folder: string): RunLock {
  const ownerFile = join(folder, "owner.json");
  const lock = tryLock(join(folder, "lock"));
  if (!lock) {
    const owner = readOwner(ownerFile);
    const who = owner ? `process ${owner.pid} on ${owner.host} since ${owner.since}` : "another process";
    throw new HoneError(`the run ${folder} is in use by ${who}; wait until it ends, or give another --run`);
  }
  let previous: Owner | undefined;
  try {
    previous = readOwner(ownerFile);
    const since = new Date().toISOString();
    const owner: Owner = { pid: process.pid, host: hostname(), since, ticks: statOf("self")?.start ?? null };
    writeDurably(ownerFile, `${JSON.stringify(owner)}\n`);
  } catch (error) {
    lock.close();
    throw error;
  }
  return {
    previous,
    release() {
      rmSync(ownerFile, { force: true });
      lock.close();
    },
  };
}
