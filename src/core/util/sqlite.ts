/** SQLite databases: better-sqlite3 with the binary that hone has for this machine. */
import Database from "better-sqlite3";
import { sqliteFile } from "./binaries.js";

let binary: string | undefined;

/**
 * Opens a database; the file is made when it is missing, unless the options say otherwise.
 *
 * @throws HoneError where there is no SQLite for this machine; SqliteError as better-sqlite3 does
 */
export function openDatabase(file: string, options: Database.Options = {}): Database.Database & Disposable {
  binary ??= sqliteFile();
  const database = new Database(file, { ...options, nativeBinding: binary });
  return Object.assign(database, { [Symbol.dispose]: () => void database.close() });
}
