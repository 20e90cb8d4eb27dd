/** Small packs, of a few files. */
import { mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sha256OfFile } from "../../src/core/util/files.js";
import { bytesOf, type Entry, writeParts } from "../../src/machine/pack/archive.js";
import { FORMAT, type Here, MANIFEST, type Manifest } from "../../src/machine/pack/unpack.mjs";

/** A machine that small packs are for. */
export const here: Here = {
  platform: "linux",
  arch: "x64",
  abi: "115",
  node: "20.19.4",
  glibc: "2.36",
  pythons: ["3.11"],
  driver: undefined,
};

/** @returns its manifest, which is in the folder too */
export async function smallPack(
  folder: string,
  entries: readonly Entry[],
  given: Partial<Manifest> = {},
  partBytes = 3000,
): Promise<Manifest> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const parts = await writeParts(entries, folder, "hone-small", partBytes, undefined);
  const files: Record<string, { sha256: string; bytes: number }> = {};
  for (const name of parts) {
    const file = join(folder, name);
    files[name] = { sha256: await sha256OfFile(file), bytes: statSync(file).size };
  }
  const manifest: Manifest = {
    format: FORMAT,
    target: "linux-x64-cpu",
    hone: "0.1.0",
    platform: "linux",
    arch: "x64",
    node: { abi: "115", version: "20.20.2" },
    glibc: "2.28",
    python: "3.11",
    cuda: null,
    models: [],
    unpacked: { bytes: entries.reduce((sum, entry) => sum + bytesOf(entry), 0), entries: entries.length },
    parts,
    files,
    ...given,
  };
  writeFileSync(join(folder, MANIFEST), JSON.stringify(manifest));
  return manifest;
}
