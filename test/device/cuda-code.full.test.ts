/** That the rule which chooses CUDA knows what code llama.cpp's libraries hold. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type CudaMajor, requirements } from "../../src/engine/device/cuda.js";
import { cudaBackend, thisMachine } from "../../src/engine/missing.js";
import { lackOf } from "../support/libraries.js";

const lack = await lackOf("cuda", "cuda-ext");

/** Entries of a file's fat binaries: 1 is PTX, 2 machine code; layout as in CUDA's fatbinary.h. */
function codeIn(file: string): { kind: number; ptx: string; capability: number }[] {
  const descriptor = openSync(file, "r");
  const found = new Map<string, { kind: number; ptx: string; capability: number }>();
  const magic = Buffer.from([0x50, 0xed, 0x55, 0xba]);
  const read = (size: number, from: number) => {
    const buffer = Buffer.alloc(size);
    return buffer.subarray(0, readSync(descriptor, buffer, 0, size, from));
  };
  const chunk = 1 << 24;
  for (let start = 0; start < fstatSync(descriptor).size; start += chunk - 4) {
    const bytes = read(chunk, start);
    for (let at = bytes.indexOf(magic); at >= 0; at = bytes.indexOf(magic, at + 4)) {
      const header = read(16, start + at);
      if (header.length < 16 || header.readUInt16LE(6) !== 16) continue;
      const end = start + at + 16 + Number(header.readBigUInt64LE(8));
      for (let entry = start + at + 16; entry < end; ) {
        const words = read(32, entry);
        if (words.length < 32) break;
        const [kind, capability] = [words.readUInt16LE(0), words.readUInt32LE(28)];
        const ptx = `${words.readUInt16LE(26)}.${words.readUInt16LE(24)}`;
        found.set(`${kind} ${ptx} ${capability}`, { kind, ptx, capability });
        entry += words.readUInt32LE(4) + Number(words.readBigUInt64LE(8));
      }
    }
  }
  closeSync(descriptor);
  return [...found.values()];
}

describe("the rule", () => {
  it.skipIf(lack !== "").each([
    [13, "9.1"],
    [12, "8.4"],
  ] as const)(`knows the code in llama.cpp's library for CUDA %s${lack}`, (major: CudaMajor, ptx) => {
    const backend = cudaBackend(major, thisMachine);
    if ("missing" in backend) throw new Error(backend.missing);
    const code = codeIn(backend.file);
    const { machineCode, ptx: lowest } = requirements[major].engine;
    const native = code.filter(({ kind }) => kind === 2).map(({ capability }) => capability);
    expect(native.sort((a, b) => a - b)).toEqual(machineCode);
    const compiled = code.filter(({ kind }) => kind === 1);
    expect(Math.min(...compiled.map(({ capability }) => capability))).toBe(lowest);
    expect(new Set(compiled.map((one) => one.ptx))).toEqual(new Set([ptx]));
  });
});
