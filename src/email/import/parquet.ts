/** Splits the rows of a Parquet file into jobs. */
import type { ParquetFile } from "../../machine/dataset/parquet.js";
import type { Job } from "./job.js";

/** Maximum unpacked bytes and rows of a job. Each job reads its row group's columns again, so small jobs cost more. */
const JOB_BYTES = 16 * 1024 * 1024;
const JOB_ROWS = 10_000;

/** Jobs that do not cross row groups. */
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
