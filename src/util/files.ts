/** Files that survive a power cut: written aside, flushed to the disk, renamed into place. */
import { createHash } from "node:crypto";
import { closeSync, createReadStream, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** Flushes a file's content, or a folder's list of names, to the disk. */
export function flush(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Replaces a file as a whole: readers see the old text or the new one. */
export function writeDurably(file: string, text: string): void {
  // The name has the process id, since another process may be replacing the same file.
  const aside = `${file}.${process.pid}.new`;
  try {
    writeFileSync(aside, text, { flush: true });
    renameSync(aside, file);
  } catch (error) {
    rmSync(aside, { force: true });
    throw error;
  }
  flush(dirname(file));
}

/** Moves a file or folder durably. Both names must be in the same file system. */
export function moveDurably(from: string, to: string): void {
  renameSync(from, to);
  flush(dirname(to));
  if (dirname(from) !== dirname(to)) flush(dirname(from));
}

export async function sha256OfFile(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return hash.digest("hex");
}
