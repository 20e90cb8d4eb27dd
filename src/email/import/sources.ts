/** Finds the messages and rows of paths, in order: lists files, detects their kind, and tracks progress. */
import { readFileSync } from "node:fs";
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { OpenFile } from "../../core/util/files.js";
import { openParquet, type ParquetFile } from "../../machine/dataset/parquet.js";
import { type OpenedFile, openFile, readingFailed } from "./bytes.js";
import { walk } from "./folder.js";
import { type Found, MAX_MESSAGE_BYTES } from "./found.js";
import { HEAD_BYTES, recognise } from "./recognise.js";
import { mailColumns } from "./rows.js";
import { sinkFor } from "./split.js";
import { inTar } from "./tar.js";

/** Assumed size of a maildir file in the progress; asking for each size would take too long. */
const FOLDER_FILE_BYTES = 4096;

/** Bytes on disk. */
export interface ReadingProgress {
  done: number;
  total: number;
}

/** `bytes` is the total for the progress. */
export interface Source {
  readonly path: string;
  readonly isFolder: boolean;
  readonly bytes: number;
}

/** @throws HoneError when nothing exists at `path`, or it cannot be read */
export async function findSource(path: string): Promise<Source> {
  try {
    const found = await stat(path);
    if (found.isFile()) return { path, isFolder: false, bytes: found.size };
    if (!found.isDirectory()) throw new HoneError(`${path} is neither a file nor a folder`);
    let files = 0;
    for (const _ of walk(path)) files++;
    return { path, isFolder: true, bytes: files * FOLDER_FILE_BYTES };
  } catch (error) {
    throw readingFailed(path, error);
  }
}

/**
 * What all sources hold.
 *
 * @param progress updated while reading
 * @throws HoneError on a source that holds no mail or cannot be read to its end
 */
export async function* inSources(sources: readonly Source[], progress: ReadingProgress): AsyncGenerator<Found[]> {
  progress.total = sources.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, isFolder } of sources) {
    yield* isFolder ? inFolder(path, progress) : inFile(path, true, progress);
  }
}

/** The message that a file of a folder is, or why there is none; undefined for a file with many messages. */
function messageIn(path: string): Found | undefined {
  try {
    using file = new OpenFile(path);
    const head = file.bytes(0, HEAD_BYTES);
    const kind = recognise(head);
    if (kind !== "message" && kind !== "unknown") return undefined;
    if (head.length < HEAD_BYTES) return { kind: "message", bytes: head, name: path };
    if (file.size <= MAX_MESSAGE_BYTES) return { kind: "message", bytes: readFileSync(path), name: path };
    return { kind: "skipped", reason: kind === "message" ? "too_large" : "not_mail", name: path };
  } catch {
    // No permission, deleted since, or a broken link: counted and listed in the summary.
    return { kind: "skipped", reason: "unreadable", name: path };
  }
}

async function* inFolder(path: string, progress: ReadingProgress): AsyncGenerator<Found[]> {
  for (const { path: name, readable } of walk(path)) {
    progress.done += FOLDER_FILE_BYTES;
    const found: Found | undefined = readable ? messageIn(name) : { kind: "skipped", reason: "unreadable", name };
    if (found) {
      yield [found];
      continue;
    }
    progress.total += (await findSource(name)).bytes;
    yield* inFile(name, false, progress);
  }
}

const accepted = "give a maildir folder, an mbox, a .tar or .tar.gz of either, JSON lines or Parquet";

/**
 * The messages of one file.
 *
 * @param isGiven whether the user named this file, which then has to be mail; a folder may contain anything
 * @throws HoneError when the file cannot be read to its end, or is given and holds no mail
 */
export async function* inFile(path: string, isGiven: boolean, progress: ReadingProgress): AsyncGenerator<Found[]> {
  try {
    const file = await openFile(path, (bytes) => {
      progress.done += bytes;
    });
    if (file.kind === "parquet" && !file.isPacked) yield* inParquet(path, isGiven, progress);
    else if (file.kind === "tar") yield* inTar(file.chunks, path);
    else yield* inStream(path, file, isGiven);
  } catch (error) {
    throw readingFailed(path, error);
  }
}

async function* inStream(path: string, file: OpenedFile, isGiven: boolean): AsyncGenerator<Found[]> {
  if (isGiven && !/^(?:mbox|jsonl|message)$/.test(file.kind)) {
    throw new HoneError(`${path} holds no mail: ${accepted}`);
  }
  const found: Found[] = [];
  const sink = sinkFor(path, found, file.kind);
  for await (const chunk of file.chunks) {
    sink.push(chunk);
    yield found.splice(0);
  }
  sink.end();
  yield found;
}

/** Maximum unpacked bytes and rows that are read at a time. Each time the row group's columns are read again. */
const READ_BYTES = 16 * 1024 * 1024;
const READ_ROWS = 10_000;

/** Ranges of rows that do not cross row groups. */
function* rangesOf({ metadata }: ParquetFile): Generator<{ start: number; end: number }> {
  let start = 0;
  for (const group of metadata.row_groups) {
    const rows = Number(group.num_rows);
    const groupEnd = start + rows;
    const parts = Math.ceil(Math.max(Number(group.total_byte_size) / READ_BYTES, rows / READ_ROWS)) || 1;
    const partRows = Math.ceil(rows / parts);
    for (; start < groupEnd; start = Math.min(start + partRows, groupEnd)) {
      yield { start, end: Math.min(start + partRows, groupEnd) };
    }
  }
}

async function* inParquet(path: string, isGiven: boolean, progress: ReadingProgress): AsyncGenerator<Found[]> {
  const file = await openParquet(path);
  if (!file.columns.includes("body")) {
    if (isGiven) {
      const hint = file.columns.includes("question") ? "give questions with --questions" : "it has no column body";
      throw new HoneError(`${path} holds no mail: ${hint}`);
    }
    yield [{ kind: "skipped", reason: "not_mail", name: basename(path) }];
    return;
  }
  const columns = mailColumns.filter((column) => file.columns.includes(column));
  const before = progress.done;
  for (const { start, end } of rangesOf(file)) {
    const rows = await file.read(columns, start, end);
    yield rows.map((values): Found => ({ kind: "row", values, name: path }));
    progress.done = before + Math.round((file.bytes * end) / file.rows);
  }
}
