/** Reads the rows of a data file in the format of its extension, with their line or row numbers. */
import { createReadStream } from "node:fs";
import { extname } from "node:path";
import { Readable } from "node:stream";
import { CsvError, parse } from "csv-parse";
import { codeOf, HoneError, messageOf } from "../../core/util/errors.js";
import { mapBigints, parseJson } from "../../core/util/json.js";
import { openParquet } from "./parquet.js";

export interface Row {
  /** Line of a text file, row of a Parquet file, counted from 1. */
  readonly at: number;
  readonly values: Readonly<Record<string, unknown>>;
}

export interface Table {
  readonly file: string;
  readonly unit: "line" | "row";
  /** The names of all columns that occur in any row. */
  readonly columns: readonly string[];
  readonly rows: readonly Row[];
}

/**
 * Maximum length of a CSV row in characters; an unclosed quotation mark would otherwise take in the rest of the file.
 */
const MOST_IN_A_ROW = 32 * 1024 * 1024;

type Reader = (file: string, chosen: (columns: readonly string[]) => readonly string[]) => Promise<Table>;

const readers: Readonly<Record<string, Reader>> = {
  ".jsonl": readJsonLines,
  ".ndjson": readJsonLines,
  ".csv": (file) => readCsv(file),
  ".tsv": (file) => readCsv(file, "\t"),
  ".parquet": readParquet,
};

export const dataEndings = Object.keys(readers);

/**
 * @param chosen the columns to read, for formats that can skip the others
 * @throws HoneError when the file is not valid in the format of its extension, or has no rows
 */
export async function readTable(
  file: string,
  chosen: (columns: readonly string[]) => readonly string[] = (columns) => columns,
): Promise<Table> {
  const reader = readers[extname(file).toLowerCase()];
  if (!reader) throw new HoneError(`${file}: scenarios are read from files that end in ${dataEndings.join(", ")}`);
  let table: Table;
  try {
    table = await reader(file, chosen);
  } catch (error) {
    if (error instanceof HoneError) throw error;
    throw new HoneError(`${file} ${reasonOf(error)}`, { cause: error });
  }
  if (table.rows.length === 0) throw new HoneError(`${file} has no rows`);
  return table;
}

function reasonOf(error: unknown): string {
  if (error instanceof CsvError) return `is not the CSV that it should be: ${messageOf(error)}`;
  if (codeOf(error) === "ERR_ENCODING_INVALID_ENCODED_DATA") return "is not UTF-8: save it as UTF-8";
  return `could not be read: ${messageOf(error)}`;
}

/** The text of a file in chunks, without a byte-order mark. Throws if it is not UTF-8. */
async function* textOf(file: string): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>)
    yield decoder.decode(chunk, { stream: true });
  yield decoder.decode();
}

async function* linesOf(file: string): AsyncGenerator<string> {
  let rest: string[] = [];
  for await (const text of textOf(file)) {
    const lines = text.split("\n");
    const last = lines.pop() as string;
    for (const line of lines) {
      yield rest.join("") + line;
      rest = [];
    }
    rest.push(last);
  }
  yield rest.join("");
}

/** Plain data, as workers and files have scenarios: an integer beyond 2^53 - 1, an id for example, is a text of its digits. */
const plain = (json: string) => mapBigints(parseJson(json), String);

async function readJsonLines(file: string): Promise<Table> {
  const rows: Row[] = [];
  const columns = new Set<string>();
  let at = 0;
  for await (const line of linesOf(file)) {
    at++;
    if (line.trim() === "") continue;
    let values: unknown;
    try {
      values = plain(line);
    } catch {
      throw new HoneError(`${file} line ${at} is not JSON; each line is one object`);
    }
    if (typeof values !== "object" || values === null || Array.isArray(values)) {
      throw new HoneError(`${file} line ${at} is no JSON object; each line is one object`);
    }
    for (const name of Object.keys(values)) columns.add(name);
    rows.push({ at, values: values as Row["values"] });
  }
  return { file, unit: "line", columns: [...columns], rows };
}

/** Excel writes semicolons in locales with a decimal comma. */
const separatorOf = (header: string) => (!header.includes(",") && header.includes(";") ? ";" : ",");

async function firstLine(file: string): Promise<string> {
  for await (const line of linesOf(file)) return line;
  return "";
}

async function readCsv(file: string, delimiter?: string): Promise<Table> {
  let columns: readonly string[] = [];
  const parser = parse({
    columns: (header: string[]) => {
      const names = header.map((name) => name.trim());
      // Columns without a name are what Excel leaves behind, and an index of pandas: nobody asks for them.
      const twice = names.find((name, index) => name !== "" && names.indexOf(name) !== index);
      if (twice !== undefined) throw new HoneError(`${file} has two columns called ${twice}`);
      columns = names;
      return names;
    },
    delimiter: delimiter ?? separatorOf(await firstLine(file)),
    info: true,
    max_record_size: MOST_IN_A_ROW,
    skip_empty_lines: true,
  });
  const rows: Row[] = [];
  const text = Readable.from(textOf(file));
  text.on("error", (error) => parser.destroy(error));
  let before = 1;
  for await (const one of text.pipe(parser)) {
    const { record, info } = one as { record: Record<string, string>; info: { lines: number } };
    // Lines are counted at the end of a record, which may span several.
    const values = Object.fromEntries(Object.entries(record).filter(([, value]) => value !== ""));
    rows.push({ at: before + 1, values });
    before = info.lines;
  }
  return { file, unit: "line", columns, rows };
}

async function readParquet(file: string, chosen: (columns: readonly string[]) => readonly string[]): Promise<Table> {
  const { columns, rows: count, read } = await openParquet(file);
  const rows = await read(
    chosen(columns).filter((name) => columns.includes(name)),
    0,
    count,
  );
  // A float is none of these integers, however large.
  const integer = (_: string, one: unknown) => (typeof one === "bigint" ? plain(String(one)) : one);
  const values = rows.map((row) => JSON.parse(JSON.stringify(row, integer)) as Row["values"]);
  return { file, unit: "row", columns, rows: values.map((values, i) => ({ at: i + 1, values })) };
}
