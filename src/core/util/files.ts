/** Files that survive a power cut and a full disk: written aside, flushed to the disk, renamed into place. */
import { createHash } from "node:crypto";
import {
  chmodSync,
  closeSync,
  createReadStream,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { HoneError, messageOf } from "./errors.js";

/** A file of which parts are read, until this is disposed of. */
export class OpenFile implements Disposable {
  readonly #handle: number;

  constructor(path: string) {
    this.#handle = openSync(path, "r");
  }

  get size(): number {
    return fstatSync(this.#handle).size;
  }

  /** Fewer bytes at the file's end. */
  bytes(from: number, length: number): Buffer {
    const buffer = Buffer.alloc(length);
    return buffer.subarray(0, readSync(this.#handle, buffer, 0, length, from));
  }

  flush(): void {
    fsyncSync(this.#handle);
  }

  [Symbol.dispose](): void {
    closeSync(this.#handle);
  }
}

/** Flushes a file's content, or a folder's list of names, to the disk. */
export function flush(path: string): void {
  using file = new OpenFile(path);
  file.flush();
}

/** A file, or a folder with all that is in it, is removed when this is disposed of. */
export const removedAfter = (path: string): Disposable => ({
  [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
});

interface Place {
  /** The file itself, where `file` is a link to it. */
  readonly file: string;
  /** Permissions of the file that is there; undefined where there is none. */
  readonly mode: number | undefined;
  /** A device or a pipe, such as /dev/stdout, is written to and not replaced. */
  readonly isReplaced: boolean;
}

function placeOf(file: string): Place {
  const there = statSync(file, { throwIfNoEntry: false });
  if (!there) return { file, mode: undefined, isReplaced: true };
  if (!there.isFile()) return { file, mode: undefined, isReplaced: false };
  return { file: realpathSync(file), mode: there.mode & 0o777, isReplaced: true };
}

/** The name has the process id, since another process may be replacing the same file. */
const asideOf = (file: string) => `${file}.${process.pid}.new`;

function putInPlace(aside: string, { file, mode }: Place): void {
  if (mode !== undefined) chmodSync(aside, mode);
  renameSync(aside, file);
  flush(dirname(file));
}

/** Replaces a file as a whole: readers see the old text or the new one, also after an error. */
export function writeDurably(file: string, text: string): void {
  const place = placeOf(file);
  if (!place.isReplaced) {
    writeFileSync(file, text);
    return;
  }
  const aside = asideOf(place.file);
  try {
    writeFileSync(aside, text, { flush: true });
    putInPlace(aside, place);
  } catch (error) {
    rmSync(aside, { force: true });
    throw error;
  }
}

/**
 * A file of lines that are written one by one. A file that it replaces stays as it was until `end`; where there is none,
 * the lines are in their place at once, so that a killed process leaves those that it had.
 */
export class LineFile {
  readonly #title: string;
  readonly #place: Place;
  /** Where the lines are written. */
  readonly #path: string;
  readonly #handle: number;
  #bytes = 0;
  #failed = false;

  /**
   * @param file its folders are made where they are missing
   * @param title for messages: "the trajectory file x.jsonl"
   * @throws HoneError when it cannot be written
   */
  constructor(file: string, title: string) {
    this.#title = title;
    try {
      mkdirSync(dirname(file), { recursive: true });
      this.#place = placeOf(file);
      const { file: place, mode } = this.#place;
      this.#path = mode === undefined ? place : asideOf(place);
      this.#handle = openSync(this.#path, "w");
    } catch (error) {
      throw this.#refused(error, "");
    }
  }

  /** @throws HoneError when the line cannot be written: the lines before it stay whole */
  add(line: string): void {
    try {
      writeFileSync(this.#handle, `${line}\n`);
      this.#bytes += Buffer.byteLength(line) + 1;
    } catch (error) {
      this.#failed = true;
      if (this.#place.isReplaced) ftruncateSync(this.#handle, this.#bytes);
      throw this.#refused(error, this.#bytes === 0 ? "" : `; the lines before are in ${this.#path}`);
    }
  }

  /**
   * Closes the file, and puts it into its place if every line could be written.
   *
   * @param wanted false where its lines are of no use after an error
   */
  end(wanted = true): void {
    closeSync(this.#handle);
    if (this.#path === this.#place.file) return;
    if (wanted && !this.#failed) putInPlace(this.#path, this.#place);
    else if (!this.#failed || this.#bytes === 0) rmSync(this.#path);
  }

  #refused(error: unknown, more: string): HoneError {
    return new HoneError(`${this.#title} cannot be written: ${messageOf(error)}${more}`, { cause: error });
  }
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
