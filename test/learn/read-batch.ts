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
  const about = (name: string) => header[name] as { dtype: string; data_offsets: [number, number] };
  const tensor = (name: string): number[] => {
    const { dtype, data_offsets } = about(name);
    const part = Uint8Array.from(data.subarray(...data_offsets));
    if (dtype === "U8") return [...part];
    return dtype === "I32" ? [...new Int32Array(part.buffer)] : [...new Float32Array(part.buffer)];
  };
  const names = Object.keys(header).filter((name) => name !== "__metadata__");
  const isAligned = (name: string) => about(name).data_offsets[0] % (about(name).dtype === "U8" ? 1 : 4) === 0;
  return { header, tensor, aligned: (8 + length) % 8 === 0 && names.every(isAligned) };
}
