/**
 * Rows of an SQLite database, opened read-only: each with the rows that its foreign keys name. Views, virtual tables, generated
 * columns (which follow from the others) and SQLite's own tables are left out: reading them runs what the file says.
 */
import { statSync } from "node:fs";
import { setImmediate as breath } from "node:timers/promises";
import type Database from "better-sqlite3";
import { codeOf, HoneError, messageOf, UsageError } from "../../core/util/errors.js";
import { deriveSeed, drawn } from "../../core/util/random.js";
import { openDatabase } from "../../core/util/sqlite.js";
import { cutText } from "../../core/util/text.js";
import { count, type Explored, FEWEST_CHARACTERS, PIECE_CHARACTERS, type Piece, type Source } from "../pieces.js";

/** Characters of one value at most. */
const VALUE_CHARACTERS = 1500;

/** Values in the order of a table's columns. */
type Row = readonly unknown[];

interface Columns {
  readonly name: string;
  readonly columns: readonly string[];
  /** The columns that name a row; empty where there is no primary key. */
  readonly key: readonly string[];
}

interface Table extends Columns {
  /** Foreign keys: columns here, the table and its columns there. */
  readonly references: readonly {
    readonly table: Columns;
    readonly from: readonly string[];
    readonly to: readonly string[];
  }[];
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
/** SQLite's names differ in more than ASCII's case. */
const folded = (name: string) => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

function tablesOf(db: Database.Database): Table[] {
  const names = db
    .prepare<[], string>(
      "SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )
    .pluck()
    .all();
  const all = names.map((name): Columns => {
    const columns = db
      .prepare<[string], { name: string; pk: number }>("SELECT name, pk FROM pragma_table_info(?) ORDER BY cid")
      .all(name);
    const key = columns.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
    return { name, columns: columns.map((one) => one.name), key: key.map((one) => one.name) };
  });
  const tables = new Map(all.map((table) => [folded(table.name), table]));
  return all.map((own) => {
    const links = db
      .prepare<[string], { id: number; table: string; from: string; to: string | null }>(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq',
      )
      .all(own.name);
    const references = [...new Set(links.map(({ id }) => id))].flatMap((id) => {
      const columns = links.filter((link) => link.id === id);
      const table = tables.get(folded(columns[0]?.table ?? ""));
      const from = columns.map((column) => columnOf(own, column.from));
      const to = columns.map((column, i) => table && columnOf(table, column.to ?? table.key[i]));
      // A key may name what is no table any more, or never was one.
      return table && from.every(isThere) && to.every(isThere) ? [{ table, from, to }] : [];
    });
    return { ...own, references };
  });
}

const isThere = (name: string | undefined): name is string => name !== undefined;
const columnOf = ({ columns }: Columns, name: string | undefined) =>
  columns.find((column) => name !== undefined && folded(column) === folded(name));

/** A statement that reads of each value what is shown: SQLite cuts texts, and bytes are left where they are. */
function reading(db: Database.Database, { name, columns }: Columns, where: string): Database.Statement<unknown[], Row> {
  const values = columns.map(quoted).map((column) => {
    const text = `substr(${column}, 1, ${VALUE_CHARACTERS + 1})`;
    return `CASE typeof(${column}) WHEN 'blob' THEN NULL WHEN 'text' THEN ${text} ELSE ${column} END`;
  });
  return db
    .prepare<unknown[], Row>(`SELECT ${values.join(", ")} FROM ${quoted(name)} ${where}`)
    .raw()
    .safeIntegers();
}

const shown = (value: unknown): string | undefined =>
  value === null || value === undefined ? undefined : cutText(String(value), VALUE_CHARACTERS);

function linesOf({ columns }: Columns, row: Row, indent = ""): string[] {
  return columns.flatMap((column, i) => {
    const text = shown(row[i]);
    return text === undefined || text === "" ? [] : [`${indent}${column}: ${text}`];
  });
}

/** Some rows of a table, evenly spread from a place that the seed draws: one pass, whatever its kind. */
function* rowsOf(db: Database.Database, table: Table, most: number, seed: number): Generator<{ row: Row; at: number }> {
  const total =
    db
      .prepare<[], number>(`SELECT count(*) FROM ${quoted(table.name)}`)
      .pluck()
      .get() ?? 0;
  if (total === 0 || most === 0) return;
  const stride = Math.max(1, Math.floor(total / most));
  const phase = deriveSeed("rows", seed, table.name) % stride;
  let at = 0;
  let found = 0;
  for (const row of reading(db, table, "").iterate()) {
    if (at % stride === phase) {
      yield { row, at };
      if (++found >= most) return;
    }
    at++;
  }
}

/** Finds what the rows of a table refer to. */
function piecesOf(db: Database.Database, table: Table): (row: Row, at: number) => Piece {
  const references = table.references.map(({ table: other, from, to }) => {
    const where = to.map((column) => `${quoted(column)} = ?`).join(" AND ");
    return { other, from, found: reading(db, other, `WHERE ${where} LIMIT 1`) };
  });
  return (row, at) => {
    const valueIn = (column: string) => row[table.columns.indexOf(column)];
    const key = table.key.map((column) => ({ column, value: shown(valueIn(column)) }));
    const named = key.length > 0 && key.every(({ value }) => value !== undefined);
    const id = `${table.name}[${named ? key.map(({ column, value }) => `${column}=${value}`).join(", ") : `row ${at + 1}`}]`;
    const others = references.flatMap(({ other, from, found }) => {
      const values = from.map(valueIn);
      const linked = values.includes(null) ? undefined : found.get(...values);
      return linked ? [`its ${from.join(", ")}, of table ${other.name}:`, ...linesOf(other, linked, "  ")] : [];
    });
    const text = [`table: ${table.name}`, ...linesOf(table, row), ...others].join("\n");
    return {
      id,
      title: `a row of ${table.name}`,
      text: cutText(text, PIECE_CHARACTERS),
      entity: id,
      known: "",
      fields: {},
    };
  };
}

export function sqlSource(file: string): Source {
  // Opening what is no file may wait for ever.
  const found = statSync(file, { throwIfNoEntry: false });
  if (!found?.isFile()) throw new UsageError(`--sql ${file}: ${found ? "it is no file" : "there is no such file"}`);
  return {
    kind: "sql",
    name: file,
    unit: "rows",
    async explore(most, seed, signal): Promise<Explored> {
      try {
        using db = openDatabase(file, { readonly: true, fileMustExist: true });
        // Writing is refused by SQLite itself, also to a database that is attached.
        db.pragma("query_only = ON");
        const tables = tablesOf(db);
        const skipped: Record<string, number> = {};
        const pieces: Piece[] = [];
        for (const table of tables) {
          const pieceOf = piecesOf(db, table);
          for (const { row, at } of rowsOf(db, table, most, seed)) {
            // Rows are read on this thread, which would not hear of a signal.
            await breath();
            signal.throwIfAborted();
            const piece = pieceOf(row, at);
            if (piece.text.length < FEWEST_CHARACTERS) count(skipped, "too_short");
            else pieces.push(piece);
          }
        }
        return { pieces: drawn(pieces, ({ id }) => id, "piece", seed).slice(0, most), skipped };
      } catch (error) {
        if (codeOf(error)?.startsWith("SQLITE_") !== true) throw error;
        throw new HoneError(`--sql ${file}: it cannot be read as an SQLite database: ${messageOf(error)}`, {
          cause: error,
        });
      }
    },
  };
}
