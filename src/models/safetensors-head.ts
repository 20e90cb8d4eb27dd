/** Reads the header of a safetensors file: names and shapes of its tensors, not their data. */
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { HoneError } from "../util/index.js";

/** The format's own limit of a header's length. */
const MAX_HEAD = 100_000_000;

/**
 * Shapes by tensor name.
 * @throws HoneError when the file is truncated, or not a safetensors file
 */
export function readHead(file: string, name: string): Map<string, readonly number[]> {
  const { size } = statSync(file);
  const broken = (why: string) => new HoneError(`${name} is not whole (${why}): download or copy it again`);
  const handle = openSync(file, "r");
  try {
    const start = Buffer.alloc(8);
    if (readSync(handle, start, 0, 8, 0) < 8) throw broken(`${size} bytes`);
    const length = Number(start.readBigUInt64LE(0));
    if (length > MAX_HEAD || length + 8 > size) throw broken("its header does not end");
    const text = Buffer.alloc(length);
    readSync(handle, text, 0, length, 8);
    let head: Record<string, { shape?: number[]; data_offsets?: [number, number] }>;
    try {
      head = JSON.parse(text.toString("utf8"));
    } catch {
      throw broken("its header is no JSON");
    }
    const tensors = Object.entries(head).filter(([tensor]) => tensor !== "__metadata__");
    const end = Math.max(0, ...tensors.map(([, { data_offsets: offsets }]) => offsets?.[1] ?? 0));
    if (8 + length + end !== size) throw broken(`${size} bytes, its header says ${8 + length + end}`);
    return new Map(tensors.map(([tensor, { shape = [] }]) => [tensor, shape]));
  } finally {
    closeSync(handle);
  }
}
