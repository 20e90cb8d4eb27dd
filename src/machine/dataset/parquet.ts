/** Reads Parquet files: their columns, and ranges of rows. */
import type { FileMetaData } from "hyparquet";
import { HoneError, messageOf } from "../../core/util/errors.js";

export interface ParquetFile {
  readonly columns: readonly string[];
  readonly rows: number;
  readonly bytes: number;
  readonly metadata: FileMetaData;
  /** Rows `start` to `end` (exclusive), with the given columns. */
  read(columns: readonly string[], start: number, end: number): Promise<Record<string, unknown>[]>;
}

/** @throws HoneError when the file is not a complete Parquet file */
export async function openParquet(path: string): Promise<ParquetFile> {
  // Loaded when there is such a file: with the compressors it takes longer than the rest of a task.
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects, parquetSchema } = await import("hyparquet");
  const { compressors } = await import("hyparquet-compressors");
  const file = await asyncBufferFromFile(path);
  const failed = (error: unknown) => {
    throw new HoneError(`${path} is no whole Parquet file: ${messageOf(error)}`, { cause: error });
  };
  const metadata = await parquetMetadataAsync(file).catch(failed);
  return {
    metadata,
    bytes: file.byteLength,
    rows: Number(metadata.num_rows),
    columns: parquetSchema(metadata).children.map(({ element }) => element.name),
    read: (columns, start, end) =>
      parquetReadObjects({
        file,
        metadata,
        columns: [...columns],
        rowStart: start,
        rowEnd: end,
        compressors,
      }).catch(failed),
  };
}
