/**
 * The temporary file in which a database is built, beside its target. It replaces the target only when complete; the
 * next build removes the files of killed ones.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { codeOf } from "../core/util/errors.js";
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

/** The path of a new file for a build of `target`. Removes files of killed builds, and creates missing folders. */
export function newBuildFile(target: string): string {
  mkdirSync(dirname(resolve(target)), { recursive: true });
  for (const leftover of unfinishedBuilds(target)) if (!isBeingBuilt(leftover)) rmSync(leftover, { force: true });
  return `${resolve(target)}.building-${randomBytes(4).toString("hex")}`;
}
