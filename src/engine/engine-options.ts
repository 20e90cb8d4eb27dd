/** Converts the options of the machine, `--gpu` to `--threads`, to an engine's options. */
import type { Config } from "../core/config/config.js";
import type { Gpu, LocalEngineOptions, SamplingPlace } from "../core/engine/engine.js";

export type MachineChoice = Pick<Config, "gpu" | "device" | "threads"> & Partial<Pick<Config, "decoder">>;

/** Whether tokens are to be drawn on the device: by default on CUDA, where logits would be copied over the bus. */
export const drawsOnDevice = (sampling: SamplingPlace = "auto", gpu: Gpu): boolean =>
  sampling === "device" || (sampling === "auto" && gpu === "cuda");

export const gpuChosen = ({ gpu }: Pick<MachineChoice, "gpu">): Gpu => (gpu === "off" ? false : gpu);

/** Options of an engine on the chosen part of this machine. */
export function engineOptions<O extends Omit<LocalEngineOptions, "gpu" | "device" | "threads">>(
  machine: MachineChoice,
  others: O,
) {
  const { device, threads, decoder } = machine;
  return {
    ...others,
    gpu: gpuChosen(machine),
    ...(device === undefined ? {} : { device }),
    ...(threads === undefined ? {} : { threads }),
    ...(decoder === "own" ? { decoder } : {}),
  };
}
