/** Reads files as streams of chunks: counts bytes, unpacks gzip, and reports errors. */
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { codeOf, HoneError, messageOf } from "../../core/util/errors.js";
import { OpenFile } from "../../core/util/files.js";
import { type FileKind, HEAD_BYTES, recognise } from "./recognise.js";

const READ_BYTES = 1024 * 1024;
const UNPACKED_BYTES = 256 * 1024;

/** The error for a file that cannot be read. */
export function readingFailed(path: string, cause: unknown): HoneError {
  if (cause instanceof HoneError) return cause;
  const reason: Record<string, string> = {
    ENOENT: "is not there",
    EACCES: "may not be read: permission denied",
    EPERM: "may not be read: permission denied",
    Z_BUF_ERROR: "ends in the middle: it was not copied or downloaded whole, get it again",
    Z_DATA_ERROR: "is damaged: its gzip data is wrong from some place on, get it again",
  };
  const text = reason[codeOf(cause) ?? ""] ?? `could not be read: ${messageOf(cause)}`;
  return new HoneError(`${path} ${text}`, { cause });
}

/** The first {@link HEAD_BYTES} of a file. */
export async function headOf(path: string): Promise<Buffer> {
  using file = new OpenFile(path);
  return file.bytes(0, HEAD_BYTES);
}

/** A file's unpacked bytes and their kind. */
export interface OpenedFile {
  /** Kind of the unpacked bytes. */
  readonly kind: FileKind;
  /** Whether the file is gzip. */
  readonly isPacked: boolean;
  readonly chunks: AsyncIterable<Buffer>;
}

/**
 * Opens a file and detects its kind.
 *
 * @param onBytes called with the number of bytes (packed) of each read
 */
export async function openFile(path: string, onBytes: (count: number) => void): Promise<OpenedFile> {
  const kind = recognise(await headOf(path));
  if (kind !== "gzip") return { kind, isPacked: false, chunks: chunksOf(path, false, onBytes) };
  const chunks = chunksOf(path, true, onBytes);
  // It is long enough, unless the file is not.
  const { value: first = Buffer.alloc(0) } = await chunks.next();
  return { kind: recognise(first.subarray(0, HEAD_BYTES)), isPacked: true, chunks: resumed(first, chunks) };
}

async function* resumed(first: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield first;
  yield* rest;
}

async function* chunksOf(path: string, packed: boolean, onBytes: (count: number) => void): AsyncGenerator<Buffer> {
  const file = createReadStream(path, { highWaterMark: READ_BYTES });
  file.on("data", (chunk) => onBytes(chunk.length));
  // Errors of both streams surface in the iteration; `pipeline` requires a callback.
  yield* packed ? pipeline(file, createGunzip({ chunkSize: UNPACKED_BYTES }), () => {}) : file;
}
