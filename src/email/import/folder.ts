/** Lists the files of a folder and its sub-folders, sorted by name. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

export interface FolderEntry {
  readonly path: string;
  /** False for a folder that cannot be opened and for special files (sockets, devices). */
  readonly readable: boolean;
}

/** Opening a pipe would block for ever. */
function leadsToFile(link: string): boolean {
  try {
    return statSync(link).isFile();
  } catch {
    // A broken or cyclic link, or one into an unreadable folder.
    return false;
  }
}

/**
 * Walks a folder. Follows links to files but not to folders, which may form a cycle.
 *
 * @throws the system's error when `folder` itself cannot be opened
 */
export function* walk(folder: string): Generator<FolderEntry> {
  const entries = readdirSync(folder, { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    if (!entry.isDirectory()) {
      yield { path, readable: entry.isFile() || (entry.isSymbolicLink() && leadsToFile(path)) };
      continue;
    }
    try {
      yield* walk(path);
    } catch {
      // Listed in the summary; one unreadable folder must not stop the import.
      yield { path, readable: false };
    }
  }
}
