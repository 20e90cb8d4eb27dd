/** Importers of mail: from paths to parsed mails, in order. */
import type { ImportRules, Parsed } from "./found.js";
import { parse } from "./parse.js";
import { findSource, inFile, inFolder, type ReadingProgress, type Source } from "./sources.js";

/**
 * Reads all mail of the sources, on this thread: a mail of most takes less than to hand it to another.
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
  for (const { path, isFolder } of sources) {
    if (!isFolder) {
      for await (const found of inFile(path, true, progress)) yield await parse(found, rules);
      continue;
    }
    const containers: string[] = [];
    for (const found of inFolder(path, progress, containers)) yield await parse([found], rules);
    for (const container of containers) {
      progress.total += (await findSource(container)).bytes;
      for await (const found of inFile(container, false, progress)) yield await parse(found, rules);
    }
  }
}
