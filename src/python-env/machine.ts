/** What a machine needs for its options: before anything loads llama.cpp, and for the learner. */
import type { Config } from "../config/index.js";
import { type DeviceChoice, isComplete, lookForCuda, packagesIn, takeDevice, usesCuda } from "../device/index.js";
import { cudaIsInstalled, nvidiaBroken } from "../engine/index.js";
import { HoneError, type OnLine } from "../util/index.js";
import { packagesOfPython } from "./given.js";
import { ensurePython, type PythonOptions } from "./python.js";

export interface MachineSettings extends DeviceChoice {
  readonly device: string | undefined;
  /** As {@link PythonOptions.python}. */
  readonly python: string | undefined;
  readonly torchIndex: string | undefined;
}

/**
 * Chooses the GPU of this process. On an NVIDIA GPU the engine needs CUDA's libraries, which come with PyTorch: where
 * neither hone's Python environment nor the system has them, the environment is made first, even without a learner.
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
  if (!usesCuda(settings, taken)) return false;
  const look = async () => lookForCuda(python === undefined ? packagesIn() : await packagesOfPython(python));
  const found = await look();
  // Where CUDA cannot be installed at all, the engine says why; installing gigabytes would not help.
  const possible = found !== undefined && found.majors.length > 0 && cudaIsInstalled();
  const complete = found?.runtime !== undefined && isComplete(found.runtime);
  if (possible && (learns || (python === undefined && !complete))) {
    await ensurePython({ onProgress, torchIndex, python });
    await look();
  }
  return true;
}

/**
 * The Python environment for a training's options; the same for `train`, `sft` and programs.
 *
 * @param cuda whether the learner computes on an NVIDIA GPU
 */
export function pythonFor(
  { python, torchIndex, learner, adamBits }: Pick<Config, "python" | "torchIndex" | "learner" | "adamBits">,
  cuda: boolean,
  onProgress: OnLine,
): PythonOptions {
  // 8-bit Adam is bitsandbytes', which comes with it.
  const unsloth = learner === "unsloth" || adamBits === "8";
  return { onProgress, cpu: !cuda, torchIndex, python, extras: unsloth ? ["unsloth"] : [] };
}
