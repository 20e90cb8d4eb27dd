/** Importers of mail: from paths to parsed mails, in batches and in order. */
import type { ImportRules, Parsed } from "./job.js";
import { parsePool } from "./parse-pool.js";
import { fileJobs, findSource, folderJobs, type ReadingProgress, type Source } from "./sources.js";

/**
 * Reads all mail of the sources.
 *
 * @param progress updated while reading
 * @throws HoneError on a source that holds no mail or cannot be read to its end
 */
export async function* importMail(
  sources: readonly Source[],
  rules: ImportRules,
  progress: ReadingProgress,
): AsyncGenerator<Parsed> {
  progress.total = sources.reduce((sum, { bytes }) => sum + bytes, 0);
  const pool = parsePool(rules);
  try {
    for (const { path, isFolder } of sources) {
      if (!isFolder) {
        yield* pool.parse(fileJobs(path, true, progress));
        continue;
      }
      const containers: string[] = [];
      for await (const parsed of pool.parse(folderJobs(path, progress))) {
        containers.push(...parsed.containers);
        yield parsed;
      }
      for (const container of containers) {
        progress.total += (await findSource(container)).bytes;
        yield* pool.parse(fileJobs(container, false, progress));
      }
    }
  } finally {
    await pool.close();
  }
}
