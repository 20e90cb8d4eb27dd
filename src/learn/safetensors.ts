/**
 * Writes safetensors files: eight bytes with the header's length, a JSON header, then the tensors' bytes.
 * The format is little-endian, as are all machines that hone runs on.
 */
import { writeFile } from "node:fs/promises";

const dtypes = { U8: Uint8Array, I32: Int32Array, F32: Float32Array } as const;

export interface Tensor {
  readonly dtype: keyof typeof dtypes;
  readonly shape: readonly number[];
  readonly data: Uint8Array | Int32Array | Float32Array;
}

/** A flat tensor of integers or floats. */
export function vector(dtype: Tensor["dtype"], values: readonly number[]): Tensor {
  return { dtype, shape: [values.length], data: dtypes[dtype].from(values) };
}

/** Offsets in the file are multiples of this, so that readers can map tensors without copying. */
const ALIGNMENT = 8;

/** The file's bytes. Tensors are sorted by falling element size, so each is aligned to its own. */
export function safetensors(
  tensors: Readonly<Record<string, Tensor>>,
  metadata: Readonly<Record<string, string>>,
): Buffer {
  const header: Record<string, unknown> = { __metadata__: metadata };
  const parts: Buffer[] = [];
  let offset = 0;
  const bySize = Object.entries(tensors).sort(([, a], [, b]) => b.data.BYTES_PER_ELEMENT - a.data.BYTES_PER_ELEMENT);
  for (const [name, { dtype, shape, data }] of bySize) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + data.byteLength] };
    parts.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    offset += data.byteLength;
  }
  const json = Buffer.from(JSON.stringify(header));
  const padded = Buffer.alloc(Math.ceil(json.length / ALIGNMENT) * ALIGNMENT, " ");
  json.copy(padded);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  return Buffer.concat([length, padded, ...parts]);
}

export async function writeSafetensors(
  path: string,
  tensors: Readonly<Record<string, Tensor>>,
  metadata: Readonly<Record<string, string>>,
): Promise<void> {
  await writeFile(path, safetensors(tensors, metadata));
}
