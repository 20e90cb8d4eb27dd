/** A stand-in for a machine's NVIDIA GPUs: an nvidia-smi of a few lines. */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Cards {
  readonly driver?: string;
  readonly capability?: string;
  readonly names?: readonly string[];
}

export const uuidOf = (index: number) => `GPU-${String(index + 1).repeat(8)}-aaaa-bbbb-cccc-dddddddddddd`;

/** Writes a short shell script as a program into a folder. */
export function program(folder: string, name: string, script: string): string {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, name);
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  return file;
}

/** An nvidia-smi that lists these cards. */
export function listCards(folder: string, { driver = "590.44.01", capability = "8.9", names = ["NVIDIA One"] }: Cards) {
  const rows = names.map((name, index) => `${index}, ${uuidOf(index)}, ${name}, ${driver}, 24576, ${capability}`);
  // Shell built-ins only: PATH may have nothing else.
  return program(folder, "nvidia-smi", rows.map((row) => `echo "${row}"`).join("\n"));
}
