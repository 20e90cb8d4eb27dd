/** Maps the columns of rows to the fields of scenarios, and checks them. */
import { z } from "zod";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { jsonOrText, valueAt } from "../../core/util/json.js";
import type { Row, Table } from "./rows.js";

/** Column names by field. */
export type Mapping = Readonly<Record<string, string>>;

/** `question=prompt,answer=gold` */
export function readMapping(text: string): Mapping {
  const pairs = text.split(",").map((pair) => /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(pair));
  if (pairs.some((pair) => !pair?.[2])) {
    throw new UsageError(`--map ${text}: give FIELD=COLUMN, several with commas: question=prompt,answer=gold`);
  }
  return Object.fromEntries(pairs.map((pair) => [pair?.[1] as string, pair?.[2] as string]));
}

/** Maximum length of a field in characters; every rollout carries its scenario's fields. */
const MOST_CHARACTERS = 1_000_000;

const asText = z.union([z.string(), z.number(), z.boolean()]).transform(String);

/** Fields that hone itself uses. */
const own = {
  id: asText.pipe(z.string().min(1)).optional(),
  split: asText.optional(),
  question: asText.pipe(z.string().trim().min(1)),
  kind: asText.optional(),
};

export type Fields = Readonly<z.output<z.ZodObject<typeof own>> & Record<string, unknown>>;

/** A column that no column has is a path into one: `answers.text.0`. */
const cellOf = (values: Row["values"], column: string) =>
  Object.hasOwn(values, column) ? values[column] : valueAt(values, column.split("."));

/** CSV has only text; it is parsed as JSON unless the field accepts text. */
function valueFor(field: z.ZodType, value: unknown): unknown {
  if (value === null) return field.safeParse(null).success ? null : undefined;
  if (typeof value !== "string" || field.safeParse(value).success) return value;
  const json = jsonOrText(value);
  return field.safeParse(json).success ? json : value;
}

export class RowReader {
  readonly #map: Mapping;
  readonly #fields: Readonly<Record<string, z.ZodType>>;
  /** Of hone's own fields, and of the task's, whose checks may be of several together. */
  readonly #schemas: readonly z.ZodObject[];

  /**
   * @param fields of the task's scenarios besides hone's own; undefined accepts mapped fields unchecked
   * @throws UsageError when the mapping names a field that the task's scenarios do not have
   */
  constructor(map: Mapping, fields: z.ZodObject | undefined) {
    this.#map = map;
    const free = Object.keys(map).filter((name) => !Object.hasOwn(own, name));
    const more = fields ?? z.object(Object.fromEntries(free.map((name) => [name, z.unknown()])));
    this.#fields = { ...own, ...(more.shape as Record<string, z.ZodType>) };
    const others = Object.entries(own).filter(([name]) => !Object.hasOwn(more.shape, name));
    this.#schemas = [z.object(Object.fromEntries(others)), more];
    const known = Object.keys(this.#fields);
    const wrong = Object.keys(map).find((name) => !known.includes(name));
    if (wrong !== undefined) {
      throw new UsageError(
        `--map ${wrong}=${map[wrong]}: the task's scenarios have no field ${wrong}, but ${known.join(", ")}`,
      );
    }
  }

  #columnOf(field: string): string {
    return this.#map[field] ?? field;
  }

  /** The columns of a file to read. */
  columnsIn(columns: readonly string[]): string[] {
    const wanted = Object.keys(this.#fields).map((field) => this.#columnOf(field));
    return columns.filter((name) => wanted.some((column) => column === name || column.startsWith(`${name}.`)));
  }

  /** @throws HoneError when the file lacks a mapped column, or the question's */
  checkColumns({ file, columns }: Table): void {
    const has = (column: string) => columns.includes(column) || columns.includes(column.split(".")[0] as string);
    const needed = Object.entries(this.#fields).filter(([field, type]) => this.#map[field] || !type.isOptional());
    for (const [field] of needed) {
      const column = this.#columnOf(field);
      if (has(column)) continue;
      const mend = this.#map[field] ? "" : `--map ${field}=COLUMN names the one that is meant. `;
      throw new HoneError(
        `${file} has no column ${column}${field === column ? "" : ` for ${field}`}: ${mend}It has ${columns.join(", ")}`,
      );
    }
  }

  /** @throws HoneError with the row, the field and the error */
  read({ file, unit }: Table, { at, values }: Row): Fields {
    const where = `${file} ${unit} ${at}`;
    const given = Object.entries(this.#fields).map(([field, type]) => {
      const column = this.#columnOf(field);
      const value = valueFor(type, cellOf(values, column));
      const length = typeof value === "string" ? value.length : 0;
      if (length > MOST_CHARACTERS) {
        throw new HoneError(`${where}: ${column} has ${length} characters; a field may have ${MOST_CHARACTERS}`);
      }
      return [field, value] as const;
    });
    const read: Record<string, unknown> = {};
    for (const schema of this.#schemas) {
      const row = Object.fromEntries(given.filter(([field]) => Object.hasOwn(schema.shape, field)));
      const parsed = schema.safeParse(row);
      if (!parsed.success) throw this.#wrong(where, row, parsed.error.issues[0]);
      Object.assign(read, parsed.data);
    }
    const fields = given.map(([field]) => [field, read[field]] as const).filter(([, value]) => value !== undefined);
    return Object.fromEntries(fields) as Fields;
  }

  #wrong(where: string, row: Readonly<Record<string, unknown>>, issue: z.core.$ZodIssue | undefined): HoneError {
    const [name, ...path] = issue?.path ?? [];
    if (name === undefined) return new HoneError(`${where}: ${issue?.message}`);
    const field = String(name);
    const column = this.#columnOf(field);
    const value = row[field];
    if (value === undefined || (typeof value === "string" && value.trim() === ""))
      return new HoneError(`${where} has no ${column}${column === field ? "" : ` (its ${field})`}`);
    const inside = path.length > 0 ? ` at ${path.join(".")}` : "";
    return new HoneError(`${where}: ${column} is no ${field} of this task${inside}: ${issue?.message}`);
  }
}
