/** Parses jobs on worker threads, some ahead of the reader of the results, which come in the order of the jobs. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Piscina } from "piscina";
import { HoneError, packageRoot } from "../../../util/index.js";
import type { ImportRules, Job, Parsed } from "./job.js";

const workerFile = join(packageRoot, "dist/src/tasks/email/import/parse-worker.js");

/** More would only wait: the database is written by one thread. */
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
      // Reading files and Parquet is asynchronous; blocking on atomics between jobs would stop it.
      atomics: "disabled",
    });
  }

  /** @throws HoneError when a job failed for a reason that the user can mend */
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
      // Awaited in its turn; until then its failure is not unhandled.
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
