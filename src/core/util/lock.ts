/**
 * A lock between processes that ends with its holder, even when the holder is killed: an SQLite write lock, which the
 * operating system releases. Nothing has to be cleaned up after a crash, and no process id is interpreted.
 */
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type Database from "better-sqlite3";
import { codeOf } from "./errors.js";
import { openDatabase } from "./sqlite.js";

const RETRY_MS = 200;

/** Runs `work`; false where it needs a lock that another process holds. */
function unlessBusy(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if (codeOf(error)?.startsWith("SQLITE_BUSY")) return false;
    throw error;
  }
}

/** Takes SQLite's exclusive lock, which ends with the connection at the latest. False while another process holds it. */
export function lockExclusively(database: Database.Database): boolean {
  return unlessBusy(() => database.exec("BEGIN EXCLUSIVE"));
}

/**
 * Locks `file` (made when it is missing, left behind empty); undefined while another process holds it.
 * Closing what this returns gives the lock back.
 */
export function tryLock(file: string): (Disposable & { close(): void }) | undefined {
  const database = openDatabase(file, { timeout: 0 });
  let locked = false;
  try {
    // Nothing is ever written, so no journal is needed. Setting this needs the lock, too.
    locked = unlessBusy(() => database.pragma("journal_mode = MEMORY")) && lockExclusively(database);
  } finally {
    if (!locked) database.close();
  }
  return locked ? database : undefined;
}

/**
 * Runs `work` while holding the lock `file` (made when it is missing, left behind empty).
 * `onWait` is called once when another process holds it; waiting ends with the signal.
 *
 * @throws the signal's reason when it is aborted before the lock is had
 */
export async function withLock<T>(
  file: string,
  onWait: () => void,
  work: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  signal?.throwIfAborted();
  mkdirSync(dirname(file), { recursive: true });
  let lock = tryLock(file);
  if (!lock) onWait();
  while (!lock) {
    // Only an abort ends the sleep early.
    await sleep(RETRY_MS, undefined, signal ? { signal } : {}).catch(() => undefined);
    signal?.throwIfAborted();
    lock = tryLock(file);
  }
  using _held = lock;
  return await work();
}
