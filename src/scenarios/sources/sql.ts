/**
 * Rows of an SQLite database, opened read-only: each with the rows that its foreign keys name. Views and SQLite's own tables are
 * left out.
 */
import { existsSync } from "node:fs";
import type Database from "better-sqlite3";
import { codeOf, HoneError, messageOf, UsageError } from "../../util/errors.js";
import { deriveSeed } from "../../util/random.js";
import { openDatabase } from "../../util/sqlite.js";
import { cutText } from "../../util/text.js";
import { type Explored, FEWEST_CHARACTERS, PIECE_CHARACTERS, type Piece, type Source } from "../pieces.js";
import { drawn } from "./draw.js";

/** Characters of one value at most. */
const VALUE_CHARACTERS = 1500;

type Row = Record<string, unknown>;

interface Table {
  readonly name: string;
  /** The columns that name a row; empty where there is no primary key. */
  readonly key: readonly string[];
  /** Foreign keys: columns here, the table and its columns there. */
  readonly references: readonly {
    readonly table: string;
    readonly from: readonly string[];
    readonly to: readonly string[];
  }[];
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

function tablesOf(db: Database.Database): Table[] {
  const names = db
    .prepare<[], string>(
      "SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )
    .pluck()
    .all();
  return names.map((name) => {
    const keyOf = (table: string) =>
      db.prepare<[string], string>("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk").pluck().all(table);
    const links = db
      .prepare<[string], { id: number; table: string; from: string; to: string | null }>(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq',
      )
      .all(name);
    const references = [...new Set(links.map(({ id }) => id))].map((id) => {
      const own = links.filter((link) => link.id === id);
      const table = (own[0] as (typeof own)[number]).table;
      const key = keyOf(table);
      return { table, from: own.map(({ from }) => from), to: own.map(({ to }, i) => to ?? (key[i] as string)) };
    });
    return { name, key: keyOf(name), references };
  });
}

const shown = (value: unknown): string | undefined =>
  value === null || value === undefined || Buffer.isBuffer(value)
    ? undefined
    : cutText(String(value), VALUE_CHARACTERS);

function linesOf(row: Row, indent = ""): string[] {
  return Object.entries(row).flatMap(([column, value]) => {
    const text = shown(value);
    return text === undefined || text === "" ? [] : [`${indent}${column}: ${text}`];
  });
}

/** Some rows of a table, evenly spread from a place that the seed draws: one pass, whatever its kind. */
function rowsOf(db: Database.Database, { name }: Table, most: number, seed: number): { row: Row; at: number }[] {
  const total =
    db
      .prepare<[], number>(`SELECT count(*) FROM ${quoted(name)}`)
      .pluck()
      .get() ?? 0;
  if (total === 0 || most === 0) return [];
  const stride = Math.max(1, Math.floor(total / most));
  const phase = deriveSeed("rows", seed, name) % stride;
  const found: { row: Row; at: number }[] = [];
  let at = 0;
  for (const row of db.prepare<[], Row>(`SELECT * FROM ${quoted(name)}`).iterate()) {
    if (at % stride === phase) found.push({ row, at });
    at++;
    if (found.length >= most) break;
  }
  return found;
}

function pieceOf(db: Database.Database, table: Table, row: Row, at: number): Piece {
  const named = table.key.length > 0 && table.key.every((column) => shown(row[column]) !== undefined);
  const id = `${table.name}[${named ? table.key.map((column) => `${column}=${shown(row[column])}`).join(", ") : `row ${at + 1}`}]`;
  const others = table.references.flatMap((reference) => {
    if (reference.from.some((column) => row[column] === null || row[column] === undefined)) return [];
    const where = reference.to.map((column) => `${quoted(column)} = ?`).join(" AND ");
    const found = db
      .prepare<unknown[], Row>(`SELECT * FROM ${quoted(reference.table)} WHERE ${where} LIMIT 1`)
      .get(...reference.from.map((column) => row[column]));
    return found ? [`its ${reference.from.join(", ")}, of table ${reference.table}:`, ...linesOf(found, "  ")] : [];
  });
  const text = [`table: ${table.name}`, ...linesOf(row), ...others].join("\n");
  return {
    id,
    title: `a row of ${table.name}`,
    text: cutText(text, PIECE_CHARACTERS),
    entity: id,
    known: "",
    fields: {},
  };
}

export function sqlSource(file: string): Source {
  if (!existsSync(file)) throw new UsageError(`--sql ${file}: there is no such file`);
  return {
    kind: "sql",
    name: file,
    unit: "rows",
    async explore(most, seed, signal): Promise<Explored> {
      let db: Database.Database | undefined;
      try {
        db = openDatabase(file, { readonly: true, fileMustExist: true });
        // Writing is refused by SQLite itself, also to a database that is attached.
        db.pragma("query_only = ON");
        const tables = tablesOf(db);
        const skipped: Record<string, number> = {};
        const pieces: Piece[] = [];
        for (const table of tables) {
          signal.throwIfAborted();
          for (const { row, at } of rowsOf(db, table, most, seed)) {
            const piece = pieceOf(db, table, row, at);
            if (piece.text.length < FEWEST_CHARACTERS) skipped.too_short = (skipped.too_short ?? 0) + 1;
            else pieces.push(piece);
          }
        }
        return { pieces: drawn(pieces, most, seed, ({ id }) => id), skipped };
      } catch (error) {
        if (codeOf(error)?.startsWith("SQLITE_") !== true) throw error;
        throw new HoneError(`--sql ${file}: it cannot be read as an SQLite database: ${messageOf(error)}`, {
          cause: error,
        });
      } finally {
        db?.close();
      }
    },
  };
}
