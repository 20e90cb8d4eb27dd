/** Reads the header of a safetensors file: names and shapes of its tensors, not their data. */
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { HoneError } from "../../core/util/errors.js";

/** The format's own limit of a header's length. */
const MAX_HEAD = 100_000_000;

/** Bytes of a number by the format's name of its type. */
const BYTES: Readonly<Record<string, number>> = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U64: 8,
  U32: 4,
  U16: 2,
  U8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
  F8_E8M0: 1,
};

const isCounts = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((one) => Number.isSafeInteger(one) && one >= 0);

interface Tensor {
  readonly shape: readonly number[];
  /** Behind its last byte, counted from the header's end. */
  readonly end: number;
}

/** A tensor's entry; undefined where it is not of the format, or its parts contradict each other. */
function readTensor(entry: unknown): Tensor | undefined {
  if (typeof entry !== "object" || entry === null) return undefined;
  const { dtype, shape, data_offsets: offsets } = entry as Record<string, unknown>;
  if (!isCounts(shape) || !isCounts(offsets) || offsets.length !== 2) return undefined;
  const [start, end] = offsets as [number, number];
  const bytes = shape.reduce((product, size) => product * size, BYTES[String(dtype)] ?? Number.NaN);
  return end - start === bytes ? { shape, end } : undefined;
}

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
    let head: unknown;
    try {
      head = JSON.parse(text.toString("utf8"));
    } catch {
      throw broken("its header is no JSON");
    }
    if (typeof head !== "object" || head === null || Array.isArray(head)) throw broken("its header is no JSON object");
    const shapes = new Map<string, readonly number[]>();
    let end = 0;
    for (const [tensor, entry] of Object.entries(head)) {
      if (tensor === "__metadata__") continue;
      const read = readTensor(entry);
      if (!read) throw broken(`its header describes ${JSON.stringify(tensor.slice(0, 80))} wrongly`);
      shapes.set(tensor, read.shape);
      end = Math.max(end, read.end);
    }
    if (8 + length + end !== size) throw broken(`${size} bytes, its header says ${8 + length + end}`);
    return shapes;
  } finally {
    closeSync(handle);
  }
}
