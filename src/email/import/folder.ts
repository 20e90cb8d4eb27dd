/** Lists the files of a folder and its sub-folders, sorted by name. */
import { type Dirent, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

export interface FolderEntry {
  readonly path: string;
  /** False for a folder that cannot be opened and for special files (sockets, devices). */
  readonly readable: boolean;
}

/**
 * Walks a folder. Follows links to files but not to folders, which may form a cycle.
 *
 * @throws the system's error when `folder` itself cannot be opened
 */
export function walk(folder: string): Generator<FolderEntry> {
  return walkEntries(folder, entriesOf(folder));
}

function entriesOf(folder: string): Dirent[] {
  return readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
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

function* walkEntries(folder: string, entries: readonly Dirent[]): Generator<FolderEntry> {
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (!entry.isDirectory()) {
      yield { path, readable: entry.isFile() || (entry.isSymbolicLink() && leadsToFile(path)) };
      continue;
    }
    let inner: Dirent[];
    try {
      inner = entriesOf(path);
    } catch {
      // Listed in the summary; one unreadable folder must not stop the import.
      yield { path, readable: false };
      continue;
    }
    yield* walkEntries(path, inner);
  }
}
