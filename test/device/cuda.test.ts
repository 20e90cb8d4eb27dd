/** Which CUDA a card gets, and that the rule knows what code the shipped libraries hold. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type CudaMajor, cudaFor, requirements } from "../../src/device/cuda.js";
import { cudaBackend, thisMachine } from "../../src/engine/missing.js";

const cudaOf = (capability: number | undefined, driver: string | undefined) =>
  cudaFor({ index: 0, uuid: undefined, name: "NVIDIA X", capability, memoryBytes: undefined }, driver);

describe("the CUDA of a card", () => {
  it.each([
    // RTX 4090 and 5090: machine code.
    [89, "580.65.06", [13, 12]],
    [89, "535.183.01", [12]],
    [120, "580.65.06", [13]],
    // A100, H100, T4: PTX, which an older driver than its toolkit's does not compile.
    [80, "590.44.01", [13, 12]],
    [80, "580.65.06", [12]],
    [90, "580.65.06", [12]],
    [75, "550.54.14", [12]],
    // CUDA 13 has dropped Volta and Pascal.
    [70, "590.44.01", [12]],
    [61, "580.65.06", [12]],
    // Nobody says which card, or which driver.
    [undefined, "580.65.06", [13, 12]],
    [undefined, "550.54.14", [12]],
    [89, undefined, [13, 12]],
  ])("capability %s, driver %s", (capability, driver, majors) => {
    expect(cudaOf(capability, driver)).toEqual({ majors, problem: undefined });
  });

  it.each([
    [89, "515.65.01", "the NVIDIA driver 515.65.01 is too old: NVIDIA X (compute capability 8.9) needs 525 or newer"],
    [80, "535.183.01", "the NVIDIA driver 535.183.01 is too old: NVIDIA X (compute capability 8.0) needs 550 or newer"],
    [120, "570.86.15", "the NVIDIA driver 570.86.15 is too old: NVIDIA X (compute capability 12.0) needs 580 or newer"],
    [100, "580.65.06", "the NVIDIA driver 580.65.06 is too old: NVIDIA X (compute capability 10.0) needs 590 or newer"],
    [undefined, "470.42.01", "the NVIDIA driver 470.42.01 is too old: NVIDIA X needs 525 or newer"],
    [37, "470.42.01", "NVIDIA X (compute capability 3.7) is older than what CUDA 12 and 13 run on"],
  ])("capability %s, driver %s: none, and the driver that would do", (capability, driver, problem) => {
    expect(cudaOf(capability, driver)).toEqual({ majors: [], problem });
  });
});

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
  const here = process.platform === "linux" && process.arch === "x64";
  it.skipIf(!here).each([
    [13, "9.1"],
    [12, "8.4"],
  ] as const)(
    `knows the code in llama.cpp's library for CUDA %s${here ? "" : " (skipped: the libraries are Linux x64's)"}`,
    (major: CudaMajor, ptx) => {
      const backend = cudaBackend(major, thisMachine);
      if ("missing" in backend) throw new Error(backend.missing);
      const code = codeIn(backend.file);
      const { machineCode, ptx: lowest } = requirements[major].engine;
      const native = code.filter(({ kind }) => kind === 2).map(({ capability }) => capability);
      expect(native.sort((a, b) => a - b)).toEqual(machineCode);
      const compiled = code.filter(({ kind }) => kind === 1);
      expect(Math.min(...compiled.map(({ capability }) => capability))).toBe(lowest);
      expect(new Set(compiled.map((one) => one.ptx))).toEqual(new Set([ptx]));
    },
  );
});
