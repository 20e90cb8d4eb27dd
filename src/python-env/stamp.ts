/**
 * The purpose that an environment of hone's was made for. The stamp is written last; while it matches, asking for the
 * environment costs a few small reads.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../util/index.js";

const learner = join(packageRoot, "native", "learner");
export const files = {
  runtime: join(learner, "requirements.txt"),
  development: join(learner, "requirements-dev.txt"),
  unsloth: join(learner, "requirements-unsloth.txt"),
  unslothCuda: join(learner, "requirements-unsloth-cuda.txt"),
  unslothWheels: join(learner, "unsloth-wheels.txt"),
  cpuTorch: join(learner, "cpu_torch.py"),
  cpuWheel: join(learner, "cpu_wheel.py"),
};

export type Layer = "runtime" | "development" | "unsloth";

/** The device that PyTorch was chosen for. */
export type Build = "cpu" | "cuda12" | "cuda13";

export const buildTitles: Readonly<Record<Build, string>> = { cpu: "the CPU", cuda12: "CUDA 12", cuda13: "CUDA 13" };

export interface Stamp extends Partial<Record<Layer, string>> {
  /** Undefined in stamps of older versions: PyTorch is then asked. */
  readonly device?: Build;
}

const stampFile = (folder: string) => join(folder, "hone.json");

/** Of a complete environment; undefined where there is none. */
export function readStamp(folder: string): Stamp | undefined {
  if (!existsSync(stampFile(folder)) || !existsSync(join(folder, "bin", "python"))) return undefined;
  return JSON.parse(readFileSync(stampFile(folder), "utf8")) as Stamp;
}

export function writeStamp(folder: string, layers: readonly Layer[], device: Build): void {
  const all = requirementHashes();
  const stamp: Stamp = { ...Object.fromEntries(layers.map((layer) => [layer, all[layer]])), device };
  const aside = `${stampFile(folder)}.${process.pid}`;
  writeFileSync(aside, `${JSON.stringify(stamp, null, 2)}\n`);
  renameSync(aside, stampFile(folder));
}

export function requirementHashes(): Record<Layer, string> {
  const hash = (...paths: string[]) => {
    const digest = createHash("sha256");
    for (const path of paths) digest.update(readFileSync(path));
    return digest.digest("hex");
  };
  return {
    runtime: hash(files.runtime),
    development: hash(files.runtime, files.unsloth, files.development),
    unsloth: hash(files.runtime, files.unsloth, files.unslothCuda, files.unslothWheels),
  };
}
