/**
 * Writes safetensors files, and reads their floats: eight bytes with the header's length, a JSON header, then the tensors' bytes.
 * The format is little-endian, as are all machines that hone runs on.
 */
import { readFile, rename, writeFile } from "node:fs/promises";
import { z } from "zod";
import { HoneError } from "../util/errors.js";
import { OpenFile } from "../util/files.js";

const headerSchema = z
  .object({ __metadata__: z.unknown() })
  .partial()
  .catchall(z.object({ dtype: z.literal("F32"), data_offsets: z.tuple([z.number(), z.number()]) }));

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
  // Whoever is interrupted here leaves no half of a file under its name.
  await writeFile(`${path}.part`, safetensors(tensors, metadata));
  await rename(`${path}.part`, path);
}

const metadataSchema = z.object({ __metadata__: z.record(z.string(), z.string()).optional() });

/** A longer header is none of hone's. */
const MOST_HEADER = 1_048_576;

/** Undefined for a file of another form. */
export function readMetadata(path: string): Readonly<Record<string, string>> | undefined {
  using file = new OpenFile(path);
  try {
    const length = Number(file.bytes(0, 8).readBigUInt64LE());
    const header = file.bytes(8, Math.min(length, MOST_HEADER));
    return metadataSchema.parse(JSON.parse(header.toString())).__metadata__ ?? {};
  } catch {
    // What is no JSON is no header.
    return undefined;
  }
}

/** The tensors of 32-bit floats, by name. @throws HoneError for a file that is none of this form, or has other types */
export async function readFloats(path: string): Promise<Map<string, Float32Array>> {
  const bytes = await readFile(path);
  try {
    const begin = 8 + Number(bytes.readBigUInt64LE(0));
    const { __metadata__: _, ...tensors } = headerSchema.parse(JSON.parse(bytes.toString("utf8", 8, begin)));
    return new Map(
      Object.entries(tensors).map(
        ([
          name,
          {
            data_offsets: [from, to],
          },
        ]) => [
          name,
          // A copy, which is aligned.
          new Float32Array(bytes.buffer.slice(bytes.byteOffset + begin + from, bytes.byteOffset + begin + to)),
        ],
      ),
    );
  } catch (error) {
    throw new HoneError(`${path} is no safetensors file of 32-bit floats`, { cause: error });
  }
}
