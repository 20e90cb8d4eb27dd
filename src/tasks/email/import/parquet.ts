/** Parquet files: what columns they have, and rows in ranges. */
import { open } from "node:fs/promises";
import {
  type AsyncBuffer,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
} from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { HoneError, messageOf } from "../../../util/index.js";
import type { Job } from "./job.js";

/** Unpacked bytes and rows of one job at most. Each reads its row group's columns anew: small jobs would cost more. */
const JOB_BYTES = 16 * 1024 * 1024;
const JOB_ROWS = 10_000;

export interface ParquetFile {
  readonly columns: readonly string[];
  readonly rows: number;
  readonly bytes: number;
  readonly metadata: FileMetaData;
  /** Rows `start` to `end` (not included), with the given columns. */
  read(columns: readonly string[], start: number, end: number): Promise<Record<string, unknown>[]>;
  close(): Promise<void>;
}

/** @throws HoneError when the file is no whole Parquet file */
export async function openParquet(path: string): Promise<ParquetFile> {
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

/** The rows of a file as jobs that do not cross row groups. */
export function* parquetJobs(path: string, { metadata }: ParquetFile): Generator<Job & { kind: "parquet" }> {
  let start = 0;
  for (const group of metadata.row_groups) {
    const rows = Number(group.num_rows);
    const groupEnd = start + rows;
    const jobs = Math.ceil(Math.max(Number(group.total_byte_size) / JOB_BYTES, rows / JOB_ROWS)) || 1;
    const jobRows = Math.ceil(rows / jobs);
    for (; start < groupEnd; start = Math.min(start + jobRows, groupEnd)) {
      yield { kind: "parquet", path, start, end: Math.min(start + jobRows, groupEnd) };
    }
  }
}
