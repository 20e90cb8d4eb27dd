/** A cache of verdicts by request, in an SQLite file: a run's store, or the file of `yarn hone judge`. */
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import type Database from "better-sqlite3";
import { codeOf, HoneError } from "../util/errors.js";
import { openDatabase } from "../util/sqlite.js";

export interface JudgeUsage {
  /** Requests sent, whatever the response. */
  requests: number;
  /** As billed by the server; estimated where it reports none. */
  prompt_tokens: number;
  completion_tokens: number;
  /** Dollars; null where the model's price is not known. */
  cost: number | null;
}

/** Verdicts by what was asked. */
export interface VerdictCache {
  /** The verdict as stored; undefined when there is none for this key. */
  get(key: string): unknown;
  put(key: string, verdict: unknown): void;
}

/** SHA-256 of the question, the model and its settings → the verdict as JSON. Also part of schema.ts. */
export const VERDICTS_TABLE = `
  CREATE TABLE verdicts (
    key TEXT PRIMARY KEY,
    verdict TEXT NOT NULL
  ) WITHOUT ROWID;
`;

export class SqliteVerdicts implements VerdictCache {
  readonly #get: Database.Statement<[string], string>;
  readonly #put: Database.Statement<[string, string]>;

  /** @param database must have the table */
  constructor(database: Database.Database) {
    this.#get = database.prepare<[string], string>("SELECT verdict FROM verdicts WHERE key = ?").pluck();
    this.#put = database.prepare("INSERT OR REPLACE INTO verdicts (key, verdict) VALUES (?, ?)");
  }

  get(key: string): unknown {
    const text = this.#get.get(key);
    return text === undefined ? undefined : JSON.parse(text);
  }

  put(key: string, verdict: unknown): void {
    this.#put.run(key, JSON.stringify(verdict));
  }
}

/** For verdicts that belong to no run. */
export function openVerdictFile(file: string): { cache: VerdictCache; close(): void } {
  mkdirSync(dirname(file), { recursive: true });
  const database = openDatabase(file);
  try {
    database.pragma("journal_mode = WAL");
    database.exec(VERDICTS_TABLE.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"));
    return { cache: new SqliteVerdicts(database), close: () => database.close() };
  } catch (error) {
    database.close();
    if (codeOf(error) !== "SQLITE_NOTADB") throw error;
    throw new HoneError(`${file} holds no verdicts; move it away`, { cause: error });
  }
}
