/** Parses jobs on worker threads, ahead of the reader, and returns the results in the order of the jobs. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { Piscina } from "piscina";
import { HoneError } from "../../core/util/errors.js";
import { packageRoot } from "../../core/util/paths.js";
import type { ImportRules, Job, Parsed } from "./job.js";

const workerFile = join(packageRoot, "dist/src/email/import/parse-worker.js");

/** More workers would wait, since one thread writes the database. */
const MAX_WORKERS = 4;

export interface ParsePool {
  /** @throws HoneError when a job failed for a reason that the user can fix */
  parse(jobs: AsyncIterable<Job> | Iterable<Job>): AsyncGenerator<Parsed>;
  close(): Promise<void>;
}

export function parsePool(rules: ImportRules): ParsePool {
  const workers = Math.max(1, Math.min(MAX_WORKERS, availableParallelism() - 1));
  const pool = new Piscina<Job, Parsed>({
    filename: workerFile,
    workerData: rules,
    minThreads: 1,
    maxThreads: workers,
    // The event loop must run between jobs for asynchronous reads of files and Parquet; blocking on atomics would
    // stop it.
    atomics: "disabled",
  });
  const run = (job: Job) => pool.run(job, { transferList: "bytes" in job ? [job.bytes.buffer] : [] });
  return {
    async *parse(jobs) {
      const ahead = { concurrency: workers + 2 };
      for await (const parsed of Readable.from(jobs).map(run, ahead) as AsyncIterable<Parsed>) {
        if (parsed.failure !== undefined) throw new HoneError(parsed.failure);
        yield parsed;
      }
    },
    close: () => pool.destroy(),
  };
}
