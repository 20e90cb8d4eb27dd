/**
 * Makes a copy of an F16 model with F32 weights. On a CPU its KV and sums are F32 too, so that batches of different
 * shapes sample the same tokens except for one in millions.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { readGgufFileInfo } from "node-llama-cpp";

const F32 = 0;
const F16 = 1;
/** LLAMA_FTYPE_ALL_F32. */
const ALL_F32 = 0;
const ALIGNMENT = 32;
const aligned = (bytes: number) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/** IEEE 754 half to single precision. */
function single(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

export async function writeF32Copy(from: string, to: string): Promise<void> {
  const info = await readGgufFileInfo(from, { logWarnings: false });
  const source = readFileSync(from);
  const tensors = info.fullTensorInfo ?? [];
  const metadata = Buffer.from(source.subarray(0, Number(info.totalMetadataSize)));
  // llama.cpp and the engine take the weights' type from here: with F32 the KV is F32, too. Its number follows the value's type.
  const key = "general.file_type";
  metadata.writeUInt32LE(ALL_F32, metadata.indexOf(key) + key.length + 4);
  const infos: Buffer[] = [];
  const data: Buffer[] = [];
  let offset = 0;
  for (const { name, dimensions, ggmlType, fileOffset } of tensors) {
    const count = dimensions.reduce<number>((product, size) => product * Number(size), 1);
    const values = new Float32Array(count);
    for (let i = 0; i < count; i++) {
      const at = Number(fileOffset);
      if ((ggmlType as number) === F16) values[i] = single(source.readUInt16LE(at + 2 * i));
      else if ((ggmlType as number) === F32) values[i] = source.readFloatLE(at + 4 * i);
      else throw new Error(`${from}: the tensor ${name} is neither F16 nor F32`);
    }
    const text = Buffer.from(name, "utf8");
    const about = Buffer.alloc(8 + text.length + 4 + 8 * dimensions.length + 4 + 8);
    let end = Number(about.writeBigUInt64LE(BigInt(text.length)));
    end += text.copy(about, end);
    end = about.writeUInt32LE(dimensions.length, end);
    for (const size of dimensions) end = about.writeBigUInt64LE(BigInt(size), end);
    end = about.writeUInt32LE(F32, end);
    about.writeBigUInt64LE(BigInt(offset), end);
    infos.push(about);
    const bytes = Buffer.alloc(aligned(4 * count));
    Buffer.from(values.buffer).copy(bytes);
    data.push(bytes);
    offset += bytes.length;
  }
  const head = Buffer.concat([metadata, ...infos]);
  writeFileSync(to, Buffer.concat([head, Buffer.alloc(aligned(head.length) - head.length), ...data]));
}
