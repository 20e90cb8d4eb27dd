/** The messages of a tar archive. */
import { once } from "node:events";
import { extract, type Header } from "tar-stream";
import type { Found } from "./found.js";
import { sinkFor } from "./split.js";

/**
 * Reads an archive in chunks. Uses tar-stream's events, since its async iterator takes five times as long for an
 * archive of small files.
 *
 * @throws tar-stream's error for bytes that are not a tar archive, or a truncated one
 */
export async function* inTar(chunks: AsyncIterable<Buffer>, archive: string): AsyncGenerator<Found[]> {
  const found: Found[] = [];
  const files = extract();
  let failure: Error | undefined;
  files.on("error", (error: Error) => {
    failure = error;
  });
  files.on("entry", ({ name, type }: Header, stream, next) => {
    const isFile = type === "file" || type === "contiguous-file";
    const sink = isFile ? sinkFor(`${archive}/${name}`, found) : undefined;
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
    yield found.splice(0);
  }
  if (failure) throw failure;
  const finished = once(files, "finish");
  files.end(null);
  await finished;
  yield found;
}
