/** Loads the build of llama.cpp for the chosen device; nothing is compiled or fetched here. */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { LlamaOptions } from "node-llama-cpp";
import type { Gpu } from "../core/engine/engine.js";
import { HoneError, messageOf } from "../core/util/errors.js";
import { cudaFound, cudaLibraries, type TakenDevice, takeDevice, usesCuda } from "./device/device.js";
import { libraryPath } from "./device/runtime.js";
import { findFetched } from "./libraries.js";
import {
  cpuBinding,
  cudaBackend,
  cudaExists,
  hasCompiledBuild,
  installedBackends,
  noSuchGpu,
  noVulkanDevice,
  nvidiaBroken,
  thisMachine,
  unusedCard,
  whyNoCpu,
  whyNoGpu,
} from "./missing.js";

/** Functions of the addon that are needed before llama.cpp is loaded. */
export interface CudaLoader {
  /** Loads shared libraries by their paths, permanently. Throws the loader's message. */
  preload(paths: string[]): void;
  /** CUDA's own message on why it finds no device; "" when it finds one, or is not loaded. */
  cudaComplaint(): string;
}

/** What is needed of node-llama-cpp's binding. */
interface Binding {
  /** Lines below this level are not written. */
  setLoggerLogLevel(level: number): void;
  loadBackends(folder: string): void;
  /** False for none; undefined where not even a CPU's library could be loaded. */
  getGpuType(): string | false | undefined;
  init(): Promise<void>;
}

/** As node-llama-cpp numbers them. */
const ERRORS = 2;

/**
 * llama.cpp for the CPU from node-llama-cpp's binaries, without the rest of node-llama-cpp: its 450 modules and the process in which it
 * tries a binary take 2 s of CPU time. A GPU's backend may end the process that loads it; this one throws.
 *
 * @returns undefined where node-llama-cpp has another build for it, or has to say why there is none
 */
async function loadCpu(): Promise<unknown> {
  const file = cpuBinding();
  // On macOS the build for the CPU is Metal's.
  if (file === undefined || process.platform !== "linux" || hasCompiledBuild()) return undefined;
  try {
    const binding = createRequire(import.meta.url)(file) as Binding;
    binding.setLoggerLogLevel(ERRORS);
    binding.loadBackends(dirname(file));
    if (binding.getGpuType() === undefined) return undefined;
    await binding.init();
    return binding;
  } catch {
    // As of another C library: node-llama-cpp fails too, and its error is the one that is told.
    return undefined;
  }
}

/**
 * Uses an NVIDIA GPU that is present and neither hidden nor declined, or throws the reason: silently computing elsewhere
 * would look like a slow GPU.
 *
 * @throws HoneError that says what is missing
 */
export async function loadLlama(addon: CudaLoader, gpu: Gpu, device: string | undefined): Promise<unknown> {
  const choice = { gpu: gpu === false ? ("off" as const) : gpu, device };
  const taken = takeDevice(choice);
  const noVulkan = taken.vulkan === undefined && !installedBackends().includes("vulkan");
  const onCpu = gpu === false || (gpu === "auto" && (taken.hidden || noVulkan));
  const broken = gpu === "auto" && taken.nvidia.problem !== undefined && !taken.hidden;
  const direct = onCpu && !broken && !usesCuda(choice, taken) && (await loadCpu());
  if (direct) return direct;
  findFetched();
  const { getLlama, getLlamaGpuTypes, LlamaLogLevel, NoBinaryFoundError } = await import("node-llama-cpp");
  const named = gpu !== "auto" && gpu !== false;
  // node-llama-cpp silently takes another backend where the requested one cannot exist.
  if (named && !(await getLlamaGpuTypes("allValid")).includes(gpu)) throw new HoneError(noSuchGpu(gpu));
  const load = (backend: NonNullable<LlamaOptions["gpu"]>) =>
    getLlama({
      gpu: backend,
      build: "never",
      skipDownload: true,
      progressLogs: false,
      logLevel: LlamaLogLevel.error,
    });
  if (usesCuda(choice, taken)) {
    const isRefusal = (error: unknown) => error instanceof NoBinaryFoundError;
    return loadCuda(addon, gpu === "cuda", taken, () => load("cuda"), isRefusal);
  }
  if (broken) throw new HoneError(nvidiaBroken(taken.nvidia.problem));
  try {
    if (gpu !== "auto") return await load(gpu);
    if (taken.hidden) return await load(false);
    return await load(taken.vulkan === undefined ? { type: "auto", exclude: ["cuda"] } : "vulkan");
  } catch (error) {
    if (!(error instanceof NoBinaryFoundError)) throw error;
    if (taken.vulkan !== undefined) throw new HoneError(noVulkanDevice(taken.vulkan), { cause: error });
    throw new HoneError(named ? whyNoGpu(gpu) : whyNoCpu(), { cause: error });
  }
}

async function loadCuda(
  addon: CudaLoader,
  named: boolean,
  { card, nvidia }: TakenDevice,
  load: () => Promise<{ readonly gpu: string | false }>,
  isRefusal: (error: unknown) => boolean,
): Promise<unknown> {
  const found = cudaFound();
  const refuse = (reason: string, cause?: unknown) =>
    new HoneError(unusedCard({ named, card, driver: nvidia.driver }, reason), { cause });
  const { runtime, problem } = found ?? {};
  const backend = cudaBackend(runtime?.major ?? 13, thisMachine);
  // What is wrong with the driver comes before what could be fetched.
  if (problem !== undefined && cudaExists()) throw refuse(problem);
  if ("missing" in backend) throw refuse(backend.missing);
  const files = cudaLibraries();
  try {
    addon.preload(files);
  } catch (error) {
    throw refuse(messageOf(error), error);
  }
  const before = process.env.LD_LIBRARY_PATH;
  // For the process in which node-llama-cpp tests the backend first. The learner's PyTorch finds its own libraries.
  process.env.LD_LIBRARY_PATH = libraryPath(files, process.env);
  try {
    const llama = await load();
    // This process may lack libraries that the test process found: its loader read LD_LIBRARY_PATH when it started.
    if (llama.gpu !== "cuda") throw refuse(whyNotLoaded(addon, backend));
    if (runtime?.major === 12 && !isMapped(backend.file)) {
      throw refuse(
        "it needs CUDA 12 here, but CUDA 13's libraries of the system were taken: keep them out of LD_LIBRARY_PATH and the loader's cache, or install a newer driver",
      );
    }
    return llama;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    throw refuse(whyNotLoaded(addon, backend), error);
  } finally {
    if (before === undefined) delete process.env.LD_LIBRARY_PATH;
    else process.env.LD_LIBRARY_PATH = before;
  }
}

/** node-llama-cpp only reports that it found nothing: the loader and CUDA give the cause. */
function whyNotLoaded(addon: CudaLoader, { base, file }: { base: string; file: string }): string {
  try {
    addon.preload([base, file]);
  } catch (error) {
    return messageOf(error);
  }
  const said = addon.cudaComplaint();
  return said ? `CUDA says: ${said}` : "its CUDA backend loads but finds no device";
}

function isMapped(file: string): boolean {
  const maps = "/proc/self/maps";
  return !existsSync(maps) || readFileSync(maps, "utf8").includes(file);
}
