/** Converts the options of the machine, `--gpu` to `--threads`, to an engine's options. */
import type { Gpu, LocalEngineOptions, SamplingPlace } from "../core/engine/engine.js";

export interface MachineChoice {
  /** "off" computes on the CPU alone. */
  readonly gpu: Exclude<Gpu, false> | "off";
  /** See {@link LocalEngineOptions.device}. */
  readonly device: string | undefined;
  /** undefined uses the default of {@link LocalEngineOptions.threads}. */
  readonly threads: number | undefined;
  /** See {@link LocalEngineOptions.decoder}. */
  readonly decoder?: "llama" | "own" | undefined;
}

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
