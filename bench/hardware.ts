/** The hardware on which a result was measured. */

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, release, totalmem } from "node:os";
import { join } from "node:path";
import type { LocalEngine } from "../src/core/engine/engine.js";
import { packageRoot } from "../src/core/util/paths.js";

export interface Hardware {
  readonly cpu: string;
  /** Number of logical cores available to this process. */
  readonly cores: number;
  readonly memoryGB: number;
  /** "CUDA NVIDIA H200", or "none". */
  readonly gpu: string;
  readonly system: string;
}

function nvidiaGpu(): string {
  const asked = spawnSync("nvidia-smi", ["--query-gpu=name", "--format=csv,noheader"], { encoding: "utf8" });
  return asked.status === 0 ? asked.stdout.trim().split("\n").join(", ") : "none";
}

/** `engine`: the measured one, if any, which reports its device. */
export function hardwareOf(engine: LocalEngine | undefined): Hardware {
  const gpu = engine?.info.gpu ? `${engine.info.gpu.toUpperCase()} ${engine.info.devices.join(", ")}` : undefined;
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    memoryGB: Math.round(totalmem() / 1e9),
    gpu: gpu ?? (engine ? "none" : nvidiaGpu()),
    system: `${process.platform} ${process.arch} ${release()}`,
  };
}

export function versionsOf(engine: LocalEngine | undefined): Record<string, string> {
  const version = (file: string) =>
    (JSON.parse(readFileSync(join(packageRoot, file), "utf8")) as { version: string }).version;
  return {
    hone: version("package.json"),
    node: process.versions.node,
    "node-llama-cpp": version("node_modules/node-llama-cpp/package.json"),
    ...(engine ? { "llama.cpp": engine.info.llamaVersion } : {}),
  };
}

/** Name in a file's name: "intel-xeon-platinum-8481c-2-cores", "cuda-nvidia-h200". */
export function slugOf(hardware: Hardware): string {
  const text = hardware.gpu === "none" ? `${hardware.cpu} ${hardware.cores} cores` : hardware.gpu;
  return text
    .toLowerCase()
    .replace(/\(r\)|\(tm\)|@.*ghz|\bcpu\b/g, " ")
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 60);
}

/** A warning when other processes use this machine; undefined when it is idle. */
export function busyWarning(): string | undefined {
  const [load = 0] = loadavg();
  const cores = availableParallelism();
  if (load < cores / 4) return undefined;
  return `other work keeps this machine busy (load ${load.toFixed(1)} on ${cores} cores): figures will be lower than they could be`;
}
