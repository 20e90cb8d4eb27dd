/** Whether a model trains on this machine, by the memory plan of a run with default settings. */

import { HoneError } from "../../core/util/errors.js";
import { takeDevice, usesCuda } from "../../engine/device/device.js";
import { gpuChosen, type MachineChoice } from "../../engine/engine-options.js";
import { gpuMemory } from "../../engine/load.js";
import type { ModelShape } from "../../engine/models.js";
import { decodeThreads } from "../../engine/threads.js";
import { fitHere, smallestCard } from "./by-default.js";
import { gigabytes } from "./fit.js";
import { mainMemory } from "./machine.js";

/** What training uses by default. */
const DEFAULT_MACHINE: MachineChoice = { gpu: "auto", device: undefined, threads: undefined };

/** The devices that training would use here. If the GPU cannot be used, logs why and reports the CPU alone. */
export async function thisMachine(log: (text: string) => void, choice = DEFAULT_MACHINE) {
  const threads = decodeThreads(choice.threads);
  const host = mainMemory();
  try {
    const taken = takeDevice(choice);
    const { card, nvidia, hidden } = taken;
    if (nvidia.problem !== undefined && !hidden) throw new HoneError(nvidia.problem);
    // The driver reports the card's memory even if CUDA's libraries are not installed yet.
    if (usesCuda(choice, taken) && card?.memoryBytes !== undefined) {
      const { name, memoryBytes: total } = card;
      return { machine: { host, gpu: { name, total, available: total } }, kind: "cuda" as const, threads };
    }
    const gpu = await gpuMemory(gpuChosen(choice));
    const found = gpu && { name: gpu.name, total: gpu.total, available: gpu.free };
    return { machine: { host, gpu: found }, kind: gpu?.kind ?? (false as const), threads };
  } catch (error) {
    if (!(error instanceof HoneError)) throw error;
    log(error.message);
    return { machine: { host, gpu: null }, kind: false as const, threads };
  }
}

export type Here = Awaited<ReturnType<typeof thisMachine>>;

/** The smallest NVIDIA card that trains the model with default settings, and whether this machine does. */
export function plannedFor(shape: ModelShape | null, { machine, kind, threads }: Here) {
  if (!shape) return { smallest_gpu: null, fits: undefined };
  return { smallest_gpu: smallestCard(shape), fits: fitHere(shape, machine, kind, threads) };
}

export const machineText = ({ machine: { host, gpu }, kind }: Here) =>
  gpu && kind === "cuda"
    ? `${gpu.name} (${gigabytes(gpu.total)}) and ${gigabytes(host.total)} of main memory`
    : gpu && kind
      ? `${gpu.name} (${gigabytes(gpu.total)}), and the CPU with ${gigabytes(host.total)}`
      : `the CPU with ${gigabytes(host.total)}`;
