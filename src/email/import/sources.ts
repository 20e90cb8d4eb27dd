/** Converts paths to jobs: finds files, detects their kind, and tracks progress. */
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { openParquet } from "../../machine/dataset/parquet.js";
import { type OpenedFile, openFile, readingFailed } from "./bytes.js";
import { walk } from "./folder.js";
import type { Job } from "./job.js";
import { parquetJobs } from "./parquet.js";
import { JobQueue, sinkFor } from "./split.js";
import { tarJobs } from "./tar.js";

/** Number of files per job: small enough to keep every worker busy and progress smooth. */
const JOB_FILES = 200;
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

/** The files of a folder, for workers to read. */
export function* folderJobs(path: string, progress: ReadingProgress): Generator<Job> {
  let paths: string[] = [];
  for (const entry of walk(path)) {
    progress.done += FOLDER_FILE_BYTES;
    if (!entry.readable) yield { kind: "skipped", skipped: [{ reason: "unreadable", fileName: entry.path }] };
    else if (paths.push(entry.path) === JOB_FILES) {
      yield { kind: "files", paths };
      paths = [];
    }
  }
  if (paths.length > 0) yield { kind: "files", paths };
}

const accepted = "give a maildir folder, an mbox, a .tar or .tar.gz of either, JSON lines or Parquet";

/**
 * The messages of one file.
 *
 * @param isGiven whether the user named this file, which then has to be mail; a folder may contain anything
 * @throws HoneError when the file cannot be read to its end, or is given and holds no mail
 */
export async function* fileJobs(path: string, isGiven: boolean, progress: ReadingProgress): AsyncGenerator<Job> {
  try {
    const file = await openFile(path, (bytes) => {
      progress.done += bytes;
    });
    if (file.kind === "parquet" && !file.isPacked) yield* parquetFileJobs(path, isGiven, progress);
    else if (file.kind === "tar") yield* tarJobs(file.chunks, path);
    else yield* streamJobs(path, file, isGiven);
  } catch (error) {
    throw readingFailed(path, error);
  }
}

async function* streamJobs(path: string, file: OpenedFile, isGiven: boolean): AsyncGenerator<Job> {
  if (isGiven && !/^(?:mbox|jsonl|message)$/.test(file.kind)) {
    throw new HoneError(`${path} holds no mail: ${accepted}`);
  }
  const queue = new JobQueue();
  const sink = sinkFor(file.kind, path, queue);
  for await (const chunk of file.chunks) {
    sink.push(chunk);
    yield* queue.take();
  }
  sink.end();
  queue.flush();
  yield* queue.take();
}

async function* parquetFileJobs(path: string, isGiven: boolean, progress: ReadingProgress): AsyncGenerator<Job> {
  const file = await openParquet(path);
  if (!file.columns.includes("body")) {
    if (isGiven) {
      const hint = file.columns.includes("question") ? "give questions with --questions" : "it has no column body";
      throw new HoneError(`${path} holds no mail: ${hint}`);
    }
    yield { kind: "skipped", skipped: [{ reason: "not_mail", fileName: basename(path) }] };
    return;
  }
  const before = progress.done;
  for (const job of parquetJobs(path, file)) {
    yield job;
    progress.done = before + Math.round((file.bytes * job.end) / file.rows);
  }
}
