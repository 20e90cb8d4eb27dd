/** Parses jobs on worker threads, ahead of the reader, and returns the results in the order of the jobs. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Piscina } from "piscina";
import { HoneError } from "../../core/util/errors.js";
import { packageRoot } from "../../core/util/paths.js";
import type { ImportRules, Job, Parsed } from "./job.js";

const workerFile = join(packageRoot, "dist/src/email/import/parse-worker.js");

/** More workers would wait, since one thread writes the database. */
const MAX_WORKERS = 4;

export class ParsePool {
  readonly #pool: Piscina<Job, Parsed>;
  readonly #workers = Math.max(1, Math.min(MAX_WORKERS, availableParallelism() - 1));

  constructor(rules: ImportRules) {
    this.#pool = new Piscina<Job, Parsed>({
      filename: workerFile,
      workerData: rules,
      minThreads: 1,
      maxThreads: this.#workers,
      // The event loop must run between jobs for asynchronous reads of files and Parquet; blocking on atomics would
      // stop it.
      atomics: "disabled",
    });
  }

  /** @throws HoneError when a job failed for a reason that the user can fix */
  async *parse(jobs: AsyncIterable<Job> | Iterable<Job>): AsyncGenerator<Parsed> {
    const ahead = this.#workers + 2;
    const running: Promise<Parsed>[] = [];
    const next = async () => {
      const parsed = await (running.shift() as Promise<Parsed>);
      if (parsed.failure !== undefined) throw new HoneError(parsed.failure);
      return parsed;
    };
    for await (const job of jobs) {
      const transferList = "bytes" in job ? [job.bytes.buffer] : [];
      const result = this.#pool.run(job, { transferList });
      // Awaited in order; until then its failure must not count as unhandled.
      result.catch(() => undefined);
      running.push(result);
      if (running.length > ahead) yield await next();
    }
    while (running.length > 0) yield await next();
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }
}
