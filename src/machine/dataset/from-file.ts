/**
 * `scenarios: fromFile("data.csv", { map, fields })`: a task whose scenarios are the rows of a data file. Options of
 * the command line override the file, its columns and its split: `--scenarios`, `--map`, `--test-share`.
 */
import { createHash } from "node:crypto";
import { basename, extname } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { CommonOptions, PlainOptions, Scenario, ScenarioIo, Split } from "../../core/task/task.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { drawn } from "../../core/util/random.js";
import { filesOf, splitOfFile, splitOfWord } from "./files.js";
import { type Fields, type Mapping, RowReader, readMapping } from "./mapping.js";
import { type Row, readTable, type Table } from "./rows.js";

/** Default share of test rows, if neither a column nor the files' names give the split. */
const TEST_SHARE = 0.2;

export interface FromFile<F extends z.ZodObject = z.ZodObject> {
  /** Column names of fields, where they differ: `{ question: "prompt", answer: "gold", id: "uuid", split: "fold" }`. */
  readonly map?: Mapping;
  /** Schema of a scenario's fields besides `id`, `split`, `question` and `kind`; each row is checked against it. */
  readonly fields?: F;
  /** Share of the rows kept for tests, drawn by the seed. */
  readonly testShare?: number;
}

/** Options of a file source, added to those of its task. */
const options = z.object({
  scenarios: z.string().min(1).meta({ path: true }),
  map: z
    .string()
    .min(1)
    .optional()
    .describe("columns by field where the file calls them otherwise: question=prompt,answer=gold"),
  testShare: z
    .number()
    .gt(0)
    .lt(1)
    .optional()
    .describe(
      `share of the rows for tests; by default what a column split says, or the files' names, else ${TEST_SHARE}`,
    ),
});

type FileOptions = z.output<typeof options> & CommonOptions;

/** A task's `scenarios` function with the options that it adds. */
export interface FileScenarios<S extends Scenario> {
  (given: PlainOptions & CommonOptions, io?: ScenarioIo): Promise<readonly S[]>;
  readonly options: z.ZodObject;
}

interface ReadRow {
  readonly table: Table;
  readonly row: Row;
  readonly fields: Fields;
}

/** The rule for the split: the first of options, mapping and task that gives one. */
function splitRule(config: FileOptions, given: FromFile): { column: boolean; share: number | undefined } {
  const map = config.map === undefined ? undefined : readMapping(config.map);
  const layers = [
    { column: map?.split !== undefined, share: config.testShare },
    { column: given.map?.split !== undefined, share: given.testShare },
  ];
  for (const { column, share } of layers) {
    if (column && share !== undefined) {
      throw new UsageError("--map split=... and --test-share both say which rows are for tests; give one of them");
    }
    if (column || share !== undefined) return { column, share };
  }
  return { column: true, share: undefined };
}

function splitByColumn({ table, row, fields }: ReadRow): Split {
  const split = splitOfWord(fields.split ?? "");
  if (split) return split;
  const value = fields.split === undefined ? "nothing" : JSON.stringify(fields.split);
  throw new HoneError(
    `${table.file} ${table.unit} ${row.at}: the split is ${value}; train, or test, validation, val, dev are known`,
  );
}

/** The scenario's content without id and split: equal questions must not be in both splits. */
function contentOf({ id: _, split: __, ...content }: Fields): string {
  return createHash("sha256").update(JSON.stringify(content)).digest("hex");
}

/** Draws the test rows by the seed. At least one row is for tests, and at least one is not. */
function drawnForTests(rows: readonly ReadRow[], share: number, seed: number): ReadonlySet<string> {
  const contents = [...new Set(rows.map(({ fields }) => contentOf(fields)))];
  const count = Math.min(contents.length - 1, Math.max(1, Math.round(share * contents.length)));
  return new Set(drawn(contents, (content) => content, "split", seed).slice(0, count));
}

function splitsOf(rows: readonly ReadRow[], config: FileOptions, given: FromFile): Split[] {
  const { column, share } = splitRule(config, given);
  if (column && rows.some(({ fields }) => fields.split !== undefined)) return rows.map(splitByColumn);
  const byFile = rows.map(({ table }) => splitOfFile(table.file));
  if (share === undefined && byFile.includes("train") && byFile.includes("test")) {
    return byFile.map((split) => split ?? "train");
  }
  const tests = drawnForTests(rows, share ?? TEST_SHARE, config.seed);
  return rows.map(({ fields }) => (tests.has(contentOf(fields)) ? "test" : "train"));
}

function idsOf(rows: readonly ReadRow[]): string[] {
  const seen = new Map<string, ReadRow>();
  return rows.map((one, i) => {
    const { table, row, fields } = one;
    // Row numbers repeat between files, so the id contains the file's name.
    const id = fields.id ?? `${basename(table.file, extname(table.file))}-${row.at}`;
    const before = seen.get(id);
    if (before) {
      const place = before.table === table ? `${table.unit} ${before.row.at}` : `${before.table.file} ${before.row.at}`;
      throw new HoneError(
        `${table.file} ${table.unit} ${row.at} has the id ${id}, which ${place} has too; ids tell scenarios apart`,
      );
    }
    seen.set(id, rows[i] as ReadRow);
    return id;
  });
}

/**
 * Reads scenarios from a file (JSON lines, CSV, TSV or Parquet), a folder of such files, or a data set of the Hub.
 *
 * @param source a path relative to the current folder, or `new URL("data.jsonl", import.meta.url)` relative to the task
 * file;
 * "hf:OWNER/NAME", or "hf:OWNER/NAME:FOLDER" where a data set has several parts
 */
export function fromFile<F extends z.ZodObject = z.ZodObject<Record<never, never>>>(
  source: string | URL,
  given: FromFile<F> = {},
): FileScenarios<Scenario & z.output<F>> {
  const file = source instanceof URL ? fileURLToPath(source) : source;
  const load = async (all: PlainOptions & CommonOptions, io: ScenarioIo = {}) => {
    const config = all as unknown as FileOptions;
    const reader = new RowReader({ ...given.map, ...(config.map ? readMapping(config.map) : {}) }, given.fields);
    const rows: ReadRow[] = [];
    for (const path of await filesOf(config.scenarios, config.home, io)) {
      const table = await readTable(path, (columns) => reader.columnsIn(columns));
      reader.checkColumns(table);
      for (const row of table.rows) rows.push({ table, row, fields: reader.read(table, row) });
    }
    const ids = idsOf(rows);
    const splits = splitsOf(rows, config, given);
    return rows.map(({ fields }, i) => ({ ...fields, id: ids[i], split: splits[i] }) as Scenario & z.output<F>);
  };
  const about = "file with the scenarios (JSONL, CSV, TSV, Parquet), folder of such files, or hf:OWNER/NAME";
  const shape = {
    ...options.shape,
    scenarios: options.shape.scenarios.default(file).meta({ path: true, description: about }),
  };
  return Object.assign(load, { options: z.object(shape) });
}
