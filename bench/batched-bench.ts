/**
 * llama.cpp's own llama-batched-bench, on the very libraries that node-llama-cpp ships: only its one source file is
 * compiled (seconds), everything else is linked from the folder that this process has loaded libllama from.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Engine } from "../src/engine/index.js";
import { HoneError } from "../src/util/errors.js";
import { packageRoot } from "../src/util/paths.js";

export interface BatchedBenchSettings {
  readonly sequences: number;
  readonly prompt: number;
  readonly tokens: number;
}

/** The folder of the libllama that this process has loaded; an engine must have been loaded before. */
export function libraryFolder(): string {
  if (process.platform !== "linux") {
    throw new HoneError("this row finds the loaded libllama in /proc, which only Linux has; leave it out with --only");
  }
  const mapped = readFileSync("/proc/self/maps", "utf8").match(/\S+\/libllama\.[^/\s]*so\S*$/m)?.[0];
  if (!mapped) throw new HoneError("this process has not loaded libllama yet");
  return dirname(mapped);
}

/** Compiles the tool for one set of libraries (CPU, CUDA, ...) and gives its path. */
export function buildBatchedBench(say: (line: string) => void): string {
  const libraries = libraryFolder();
  const target = join(packageRoot, "build", "bench", `llama-batched-bench-${variant(libraries)}`);
  if (existsSync(target)) return target;
  const unpacked = spawnSync(process.execPath, [join(packageRoot, "scripts", "llama-source.mjs")], {
    encoding: "utf8",
  });
  if (unpacked.status !== 0) throw new HoneError(unpacked.stderr.trim());
  const source = unpacked.stdout.trim();
  say("compiling llama-batched-bench");
  mkdirSync(dirname(target), { recursive: true });
  const shared = readdirSync(libraries).filter((name) => /^lib(llama|ggml)(-common|-base)?(\..*)?\.so$/.test(name));
  const args = [
    ...["-O2", "-std=c++17"],
    ...["common", "include", "ggml/include", "vendor"].map((folder) => `-I${join(source, folder)}`),
    ...[
      join(source, "tools", "batched-bench", "batched-bench.cpp"),
      join(packageRoot, "bench", "batched-bench-main.cc"),
    ],
    ...shared.map((name) => join(libraries, name)),
    ...[`-Wl,-rpath,${libraries}`, "-lpthread", "-o", target],
  ];
  const compiler = process.env.CXX ?? "g++";
  const done = spawnSync(compiler, args, { encoding: "utf8" });
  if (done.status !== 0) {
    const why = done.error ? done.error.message : done.stderr.split("\n").find((line) => line.includes("error"));
    throw new HoneError(`llama-batched-bench could not be compiled with ${compiler}: ${why}`);
  }
  return target;
}

/** ".../linux-x64-cuda/bins/linux-x64-cuda" → "linux-x64-cuda". */
const variant = (libraries: string) => libraries.split("/").at(-1) ?? "";

/** Decode speed in tokens per second, in a process of its own, with the engine's settings. */
export async function batchedBench(tool: string, engine: Engine, settings: BatchedBenchSettings): Promise<number> {
  const { info } = engine;
  const context = info.contextPerSequence * settings.sequences;
  const args = [
    ...["-m", info.model, "-c", context, "-b", info.batch, "-ub", info.ubatch],
    ...["-npp", settings.prompt, "-ntg", settings.tokens, "-npl", settings.sequences],
    ...["-t", info.threads, "-tb", info.threads, "-ngl", info.gpu === false ? 0 : 999],
    ...["--output-format", "jsonl"],
  ].map(String);
  // The tool loads its backends from the folder it is started in.
  const child = spawn(tool, args, { cwd: libraryFolder(), stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
    });
  }
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  const line = output.split("\n").find((text) => text.startsWith('{"n_kv_max"'));
  const result = line === undefined ? undefined : (JSON.parse(line) as { pl: number; speed_tg: number });
  if (code !== 0 || result?.pl !== settings.sequences) {
    throw new HoneError(`llama-batched-bench ended with code ${code}: ${output.trim().split("\n").at(-1)}`);
  }
  return result.speed_tg;
}
