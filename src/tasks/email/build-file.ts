/**
 * The file a database is built in. It lies beside the target under a name of its own and takes the target's place only
 * when it is whole; what a killed build left is cleared away by the next.
 */
import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, renameSync, rmSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import Database from "better-sqlite3";
import { codeOf, lockExclusively } from "../../util/index.js";

/** Files of builds for a target that run or were killed. */
export function unfinishedBuilds(target: string): string[] {
  const folder = dirname(resolve(target));
  const prefix = `${basename(target)}.building-`;
  try {
    return readdirSync(folder)
      .filter((name) => name.startsWith(prefix))
      .map((name) => join(folder, name));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

/** Does a process write this file? A build holds SQLite's exclusive lock; a killed one has lost it. */
export function isBeingBuilt(file: string): boolean {
  let db: Database.Database | undefined;
  try {
    db = new Database(file, { fileMustExist: true, timeout: 0 });
    return !lockExclusively(db);
  } catch {
    // A complaint (half a database, no database, gone by now) comes from a file nobody holds.
    return false;
  } finally {
    db?.close();
  }
}

function syncToDisk(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

export class BuildFile {
  readonly path: string;
  readonly #target: string;

  /** Chooses a name and clears what killed builds left. Folders on the way are made. */
  constructor(target: string) {
    this.#target = resolve(target);
    this.path = `${this.#target}.building-${randomBytes(4).toString("hex")}`;
    mkdirSync(dirname(this.#target), { recursive: true });
    for (const leftover of unfinishedBuilds(this.#target)) {
      if (!isBeingBuilt(leftover)) rmSync(leftover, { force: true });
    }
  }

  /** Puts the closed file in the target's place, on disk before it is visible. */
  publish(): void {
    syncToDisk(this.path);
    renameSync(this.path, this.#target);
    syncToDisk(dirname(this.#target));
  }

  discard(): void {
    rmSync(this.path, { force: true });
  }
}
