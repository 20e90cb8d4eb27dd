/** The files of a tar archive as jobs. */
import { once } from "node:events";
import { extract, type Header } from "tar-stream";
import type { Job } from "./job.js";
import { fileSink, JobQueue } from "./split.js";

/**
 * Reads an archive in chunks. Uses tar-stream's events, since its async iterator takes five times as long for an
 * archive of small files.
 *
 * @throws tar-stream's error for bytes that are not a tar archive, or a truncated one
 */
export async function* tarJobs(chunks: AsyncIterable<Buffer>, archive: string): AsyncGenerator<Job> {
  const queue = new JobQueue();
  const files = extract();
  let failure: Error | undefined;
  files.on("error", (error: Error) => {
    failure = error;
  });
  files.on("entry", ({ name, type }: Header, stream, next) => {
    const isFile = type === "file" || type === "contiguous-file";
    const sink = isFile ? fileSink(`${archive}/${name}`, queue) : undefined;
    // The archive reports it too.
    stream.on("error", () => undefined);
    stream.on("data", (chunk) => sink?.push(chunk as Buffer));
    stream.on("end", () => {
      sink?.end();
      next();
    });
  });

  // `once` rejects on "error".
  for await (const chunk of chunks) {
    if (failure) throw failure;
    if (!files.write(chunk)) await once(files, "drain");
    yield* queue.take();
  }
  if (failure) throw failure;
  const finished = once(files, "finish");
  files.end(null);
  await finished;
  queue.flush();
  yield* queue.take();
}
