/** Opens the database of a run to read it, and words what is wrong with one. */
import { copyFileSync, existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type Database from "better-sqlite3";
import { codeOf, HoneError, messageOf } from "../util/errors.js";
import { removedAfter } from "../util/files.js";
import { openDatabase } from "../util/sqlite.js";

/** @throws HoneError with one line for a damaged file */
export function reading<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof HoneError) throw error;
    const code = codeOf(error) ?? "";
    if (code === "SQLITE_NOTADB") throw new HoneError(`${file} is not a run of hone`, { cause: error });
    const damaged = /^SQLITE_(CORRUPT|IOERR|FORMAT|ERROR|SCHEMA)/.test(code) || error instanceof SyntaxError;
    if (!damaged && !/^Z_/.test(code)) throw error;
    throw new HoneError(`${file} is damaged or half written: ${messageOf(error)}; bring it back from a copy`, {
      cause: error,
    });
  }
}

function opened(file: string): Database.Database {
  const database = openDatabase(file, { readonly: true });
  try {
    // The first query opens the write-ahead log.
    database.prepare("SELECT count(*) FROM sqlite_master").get();
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * A connection to an existing file that changes nothing. SQLite has to create a write-ahead log beside the file, even to read
 * it: where it cannot, since the folder is read-only, a copy of the file is read, which leaves nothing behind.
 */
export function openToRead(file: string): Database.Database {
  try {
    return opened(file);
  } catch (error) {
    if (!/^SQLITE_(CANTOPEN|READONLY)/.test(codeOf(error) ?? "")) throw error;
  }
  const folder = mkdtempSync(join(tmpdir(), "hone-run-"));
  using _folder = removedAfter(folder);
  const copy = join(folder, "run.sqlite");
  for (const ending of ["", "-wal"]) {
    if (existsSync(file + ending)) copyFileSync(file + ending, copy + ending);
  }
  const database = openDatabase(copy);
  // Without a log the one file is all that it needs, and that stays open after its name is gone.
  database.pragma("journal_mode = DELETE");
  database.pragma("query_only = ON");
  return database;
}
