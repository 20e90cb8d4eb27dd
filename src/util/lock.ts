/**
 * A lock between processes that ends with its holder, however that ends: an SQLite write lock, which the operating
 * system releases. Nothing has to be cleaned up after a crash, and no process id is ever guessed at.
 */
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { codeOf } from "./errors.js";

const RETRY_MS = 200;

/**
 * Runs `work` while holding the lock `file` (made when it is missing, left behind empty).
 * `onWait` is called once when another process holds it.
 */
export async function withLock<T>(file: string, onWait: () => void, work: () => Promise<T>): Promise<T> {
  mkdirSync(dirname(file), { recursive: true });
  const database = new Database(file, { timeout: 0 });
  try {
    // Nothing is ever written, so no journal has to lie beside it.
    database.pragma("journal_mode = MEMORY");
    let waiting = false;
    for (;;) {
      try {
        database.exec("BEGIN EXCLUSIVE");
        break;
      } catch (error) {
        if (!codeOf(error)?.startsWith("SQLITE_BUSY")) throw error;
      }
      if (!waiting) onWait();
      waiting = true;
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
    return await work();
  } finally {
    database.close();
  }
}
