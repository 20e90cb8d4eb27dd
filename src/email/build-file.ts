/**
 * The temporary file in which a database is built, beside its target. It replaces the target only when complete; the
 * next build removes the files of killed ones.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { codeOf } from "../core/util/errors.js";
import { flush, moveDurably } from "../core/util/files.js";
import { lockExclusively } from "../core/util/lock.js";
import { openDatabase } from "../core/util/sqlite.js";

/** Temporary files of builds for a target, running or killed. */
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

/** Whether a process writes this file. A running build holds SQLite's exclusive lock; a killed one has lost it. */
export function isBeingBuilt(file: string): boolean {
  try {
    using db = openDatabase(file, { fileMustExist: true, timeout: 0 });
    return !lockExclusively(db);
  } catch {
    // An error (incomplete, not a database, deleted) means that no build holds the file.
    return false;
  }
}

export class BuildFile {
  readonly path: string;
  readonly #target: string;

  /** Chooses a name, removes files of killed builds, and creates missing folders. */
  constructor(target: string) {
    this.#target = resolve(target);
    this.path = `${this.#target}.building-${randomBytes(4).toString("hex")}`;
    mkdirSync(dirname(this.#target), { recursive: true });
    for (const leftover of unfinishedBuilds(this.#target)) {
      if (!isBeingBuilt(leftover)) rmSync(leftover, { force: true });
    }
  }

  /** Moves the closed file to the target's place, after flushing it to disk. */
  publish(): void {
    flush(this.path);
    moveDurably(this.path, this.#target);
  }

  discard(): void {
    rmSync(this.path, { force: true });
  }
}
