/** The files of a folder and of the folders in it, in the order of their names. */
import { type Dirent, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

export interface FolderEntry {
  readonly path: string;
  /** False for a folder that may not be opened and for what is no file (a socket, a device). */
  readonly readable: boolean;
}

/**
 * Walks a folder. Links to files are followed, links to folders are not: they may lead in a circle.
 *
 * @throws the system's error when `folder` itself cannot be opened
 */
export function walk(folder: string): Generator<FolderEntry> {
  return walkEntries(folder, entriesOf(folder));
}

function entriesOf(folder: string): Dirent[] {
  return readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Opening a pipe would wait for ever. */
function leadsToFile(link: string): boolean {
  try {
    return statSync(link).isFile();
  } catch {
    // Broken, in a circle, or into a closed folder: there is no file to be read.
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
      // The summary names it: one closed folder must not cost all the others.
      yield { path, readable: false };
      continue;
    }
    yield* walkEntries(path, inner);
  }
}
