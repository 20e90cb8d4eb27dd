/** Reads Parquet files: their columns, and ranges of rows. */
import { open } from "node:fs/promises";
import type { AsyncBuffer, FileMetaData } from "hyparquet";
import { HoneError, messageOf } from "../../core/util/errors.js";

export interface ParquetFile {
  readonly columns: readonly string[];
  readonly rows: number;
  readonly bytes: number;
  readonly metadata: FileMetaData;
  /** Rows `start` to `end` (exclusive), with the given columns. */
  read(columns: readonly string[], start: number, end: number): Promise<Record<string, unknown>[]>;
  close(): Promise<void>;
}

/** @throws HoneError when the file is not a complete Parquet file */
export async function openParquet(path: string): Promise<ParquetFile> {
  // Loaded when there is such a file: with the compressors it takes longer than the rest of a task.
  const { parquetMetadataAsync, parquetReadObjects, parquetSchema } = await import("hyparquet");
  const { compressors } = await import("hyparquet-compressors");
  const file = await open(path);
  const { size } = await file.stat();
  const buffer: AsyncBuffer = {
    byteLength: size,
    async slice(start, end = size) {
      const bytes = Buffer.from(new ArrayBuffer(end - start));
      const { bytesRead } = await file.read(bytes, 0, bytes.length, start);
      if (bytesRead < bytes.length) throw new Error("the file ends in the middle");
      return bytes.buffer;
    },
  };
  const failed = (error: unknown) =>
    new HoneError(`${path} is no whole Parquet file: ${messageOf(error)}`, { cause: error });
  let metadata: FileMetaData;
  try {
    metadata = await parquetMetadataAsync(buffer);
  } catch (error) {
    await file.close();
    throw failed(error);
  }
  return {
    metadata,
    bytes: size,
    rows: Number(metadata.num_rows),
    columns: parquetSchema(metadata).children.map(({ element }) => element.name),
    async read(columns, start, end) {
      try {
        return await parquetReadObjects({
          file: buffer,
          metadata,
          columns: [...columns],
          rowStart: start,
          rowEnd: end,
          compressors,
        });
      } catch (error) {
        throw failed(error);
      }
    },
    close: () => file.close(),
  };
}
