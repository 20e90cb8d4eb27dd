import { readFileSync } from "node:fs";

interface Header {
  __metadata__: Record<string, string>;
  [tensor: string]: { dtype: string; shape: number[]; data_offsets: [number, number] } | Record<string, string>;
}

/** A reader of its own: what the writer says is not taken on trust. */
export function readBatch(path: string) {
  const bytes = readFileSync(path);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString("utf8")) as Header;
  const data = bytes.subarray(8 + length);
  const tensor = (name: string): number[] => {
    const { dtype, data_offsets } = header[name] as { dtype: string; data_offsets: [number, number] };
    const part = Uint8Array.from(data.subarray(...data_offsets));
    if (dtype === "U8") return [...part];
    return dtype === "I32" ? [...new Int32Array(part.buffer)] : [...new Float32Array(part.buffer)];
  };
  const { __metadata__: _, ...tensors } = header;
  const isAligned = ({ dtype, data_offsets: [from] }: (typeof tensors)[string]) =>
    from % (dtype === "U8" ? 1 : 4) === 0;
  return { header, tensor, aligned: (8 + length) % 8 === 0 && Object.values(tensors).every(isAligned) };
}
