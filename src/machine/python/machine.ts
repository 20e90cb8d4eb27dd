/** What a machine needs for its options: before anything loads llama.cpp, and for the learner. */
import type { Config } from "../../core/config/config.js";
import { HoneError } from "../../core/util/errors.js";
import type { OnLine } from "../../core/util/run.js";
import {
  cudaFound,
  type DeviceChoice,
  type DeviceReport,
  lookForCuda,
  takeDevice,
  usesCuda,
} from "../../engine/device/device.js";
import { isComplete, packagesIn } from "../../engine/device/runtime.js";
import { fetchLibraries } from "../../engine/libraries.js";
import { cudaExists, hasVulkan, hasVulkanCard, lackingLibraries, nvidiaBroken } from "../../engine/missing.js";
import { packagesOfPython } from "./given.js";
import { ensurePython, type PythonOptions } from "./python.js";

export type MachineSettings = Pick<Config, "gpu" | "device" | "python" | "torchIndex">;

/**
 * Fetches what llama.cpp needs for the GPU that will be used, where it is not there.
 *
 * @throws HoneError when it cannot be fetched, and the GPU was asked for or is NVIDIA's
 */
export async function fetchForGpu(
  choice: DeviceChoice,
  report: Pick<DeviceReport, "nvidia" | "card" | "hidden" | "cuda">,
  onProgress: OnLine,
  signal?: AbortSignal,
): Promise<void> {
  const fetching = { onProgress, signal };
  if (usesCuda(choice, report)) {
    const major = report.cuda?.runtime?.major ?? report.cuda?.majors[0];
    if (major !== undefined) await fetchLibraries(lackingLibraries("cuda", major), fetching);
  } else if (choice.gpu === "vulkan" && hasVulkan()) {
    await fetchLibraries(lackingLibraries("vulkan"), fetching);
  } else if (choice.gpu === "auto" && !report.hidden && hasVulkanCard()) {
    try {
      await fetchLibraries(lackingLibraries("vulkan"), fetching);
    } catch (error) {
      if (!(error instanceof HoneError)) throw error;
      onProgress(`the GPU is left unused: ${error.message}`);
    }
  }
}

/**
 * Chooses the GPU of this process, and fetches llama.cpp's libraries for it. On an NVIDIA GPU the engine needs CUDA's
 * libraries too, which come with PyTorch: where neither hone's Python environment nor the system has them, the environment is
 * made first, even without a learner.
 *
 * @param learns the learner will run too: its environment is made for the GPU in any case
 * @returns whether engine and learner have to compute on CUDA
 * @throws HoneError when there is no such device, or the environment cannot be made
 */
export async function prepareMachine(settings: MachineSettings, onProgress: OnLine, learns = false): Promise<boolean> {
  const { python, torchIndex } = settings;
  const taken = takeDevice(settings);
  const { problem } = taken.nvidia;
  if (settings.gpu === "auto" && problem !== undefined && !taken.hidden) throw new HoneError(nvidiaBroken(problem));
  if (!usesCuda(settings, taken)) {
    await fetchForGpu(settings, { ...taken, cuda: undefined }, onProgress);
    return false;
  }
  const look = async () => lookForCuda(python === undefined ? packagesIn() : await packagesOfPython(python));
  const found = await look();
  // Where CUDA cannot be installed at all, the engine says why; installing gigabytes would not help.
  const possible = found !== undefined && found.majors.length > 0 && cudaExists();
  const complete = found?.runtime !== undefined && isComplete(found.runtime);
  if (possible && (learns || (python === undefined && !complete))) {
    await ensurePython({ onProgress, torchIndex, python });
    await look();
  }
  await fetchForGpu(settings, { ...taken, cuda: cudaFound() }, onProgress);
  return true;
}

/**
 * The Python environment for a training's options; the same for `train`, `sft` and programs.
 *
 * @param cuda whether the learner computes on an NVIDIA GPU
 */
export function pythonFor(
  { python, torchIndex, learner }: Pick<Config, "python" | "torchIndex" | "learner">,
  cuda: boolean,
  onProgress: OnLine,
): PythonOptions {
  return { onProgress, cpu: !cuda, torchIndex, python, extras: learner === "unsloth" ? ["unsloth"] : [] };
}
