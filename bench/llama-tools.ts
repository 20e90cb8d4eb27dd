/**
 * Builds llama.cpp's tools on the libraries of node-llama-cpp: compiles only their own sources (seconds, minutes for
 * llama-server) and links the rest from the folder from which this process has loaded libllama. The programs can be started from any folder: the backends are linked beside them. They are started in
 * {@link toolEnvironment}.
 */
import { type SpawnOptions, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename, dirname, join } from "node:path";
import type { LocalEngine, LocalEngineInfo } from "../src/core/engine/engine.js";
import { HoneError } from "../src/core/util/errors.js";
import { withLock } from "../src/core/util/lock.js";
import { packageRoot } from "../src/core/util/paths.js";
import { cudaLibraries } from "../src/engine/device/device.js";
import { libraryPath } from "../src/engine/device/runtime.js";
import { gpuMemory } from "../src/engine/load.js";

export type LlamaTool = "llama-batched-bench" | "llama-quantize" | "llama-server";

const makefile = join(packageRoot, "bench", "llama-tools", "Makefile");

/**
 * The folder of the libllama used by this process, and that of its CUDA backend: CUDA 12's lies elsewhere. Loads the one
 * for this machine if none is loaded yet.
 */
async function libraryFolders(): Promise<{ libraries: string; cuda: string | undefined }> {
  if (process.platform !== "linux") {
    throw new HoneError("the loaded libllama is found in /proc, which only Linux has; leave this row out with --only");
  }
  await gpuMemory("auto");
  const maps = readFileSync("/proc/self/maps", "utf8");
  const mapped = maps.match(/\S+\/libllama\.[^/\s]*so\S*$/m)?.[0];
  if (!mapped) throw new HoneError("the loaded libllama is not in /proc/self/maps");
  const cuda = maps.match(/\S+\/libggml-cuda\.so$/m)?.[0];
  return { libraries: dirname(mapped), cuda: cuda && dirname(cuda) };
}

/** The environment in which a tool's CUDA backend finds the libraries that this process's has found. */
export function toolEnvironment(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  const files = cudaLibraries();
  return files.length === 0 ? env : { ...env, LD_LIBRARY_PATH: libraryPath(files, env) };
}

/**
 * Must be called before a tool is compared with an engine: llama.cpp leaves out a backend that it cannot load, and
 * computes on the CPU without a word.
 *
 * @throws HoneError unless the tool can use the engine's GPU
 */
export async function needDevice(tool: string, { info }: Pick<LocalEngine, "info">): Promise<void> {
  if (info.gpu === false) return;
  const { text } = await output(tool, ["--list-devices"], { env: toolEnvironment() });
  // "  CUDA0: NVIDIA GeForce RTX 4090 (24080 MiB, 23660 MiB free)"
  const listed = [...text.matchAll(/^ +\w+: (.+) \(\d+ MiB, \d+ MiB free\)$/gm)].map(([, description]) => description);
  if (!listed.includes(info.compute.device)) throw elsewhere(basename(tool), listed.join(", "), info);
}

export const elsewhere = (tool: string, devices: string, { compute }: Pick<LocalEngineInfo, "compute">) =>
  new HoneError(
    `${tool} computes on ${devices || "the CPU"}, and the engine on ${compute.device}: their speeds cannot be compared`,
  );

/** Compiles a tool for one set of libraries (CPU, CUDA, ...) if needed, and returns its path. */
export async function buildLlamaTool(tool: LlamaTool, log: (line: string) => void): Promise<string> {
  const { libraries, cuda = libraries } = await libraryFolders();
  // ".../linux-x64-cuda/bins/linux-x64-cuda" → "linux-x64-cuda"
  const name = basename(libraries);
  // CUDA 12: ".../linux-x64-cuda-ext/bins/linux-x64-cuda/fallback" → "linux-x64-cuda-fallback"
  const folder = join(packageRoot, "build", "llama-tools", cuda === libraries ? name : `${name}-${basename(cuda)}`);
  const target = join(folder, tool);
  if (existsSync(target)) return target;
  const waiting = () => log(`waiting for another process that compiles in ${folder}`);
  await withLock(join(folder, ".lock"), waiting, async () => {
    if (existsSync(target)) return;
    const unpacked = await output(process.execPath, [join(packageRoot, "scripts", "llama-source.mjs")]);
    if (unpacked.code !== 0) throw new HoneError(unpacked.text.trim());
    log(`compiling ${tool}${tool === "llama-server" ? ": this takes minutes, once" : ""}`);
    const settings = [`SOURCE=${unpacked.text.trim()}`, `LIBRARIES=${libraries}`, `CUDA=${cuda}`, `OUT=${folder}`];
    const make = ["--silent", `-j${availableParallelism()}`, "-f", makefile, ...settings, target];
    const done = await output("make", make);
    if (done.code !== 0) {
      const why = done.text.split("\n").find((line) => /error/i.test(line)) ?? done.text.trim().split("\n").at(-1);
      throw new HoneError(`${tool} could not be compiled: ${why}`);
    }
  });
  return target;
}

/** A program's output, stdout and stderr together. */
export async function output(
  program: string,
  args: readonly string[],
  options: SpawnOptions = {},
): Promise<{ code: number | null; text: string }> {
  const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
  }
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", (error) => reject(new HoneError(`${program} cannot be started: ${error.message}`)));
    child.once("close", resolve);
  });
  return { code, text };
}
