/** Converts the options `--gpu`, `--device` and `--threads` to an engine's options. */
import type { EngineOptions, Gpu } from "./engine.js";

export interface MachineChoice {
  /** "off" computes on the CPU alone. */
  readonly gpu: Exclude<Gpu, false> | "off";
  /** See {@link EngineOptions.device}. */
  readonly device: string | undefined;
  /** undefined uses the default of {@link EngineOptions.threads}. */
  readonly threads: number | undefined;
}

export const gpuChosen = ({ gpu }: Pick<MachineChoice, "gpu">): Gpu => (gpu === "off" ? false : gpu);

/** Options of an engine on the chosen part of this machine. */
export function engineOptions<O extends Omit<EngineOptions, "gpu" | "device" | "threads">>(
  machine: MachineChoice,
  others: O,
) {
  const { device, threads } = machine;
  return {
    ...others,
    gpu: gpuChosen(machine),
    ...(device === undefined ? {} : { device }),
    ...(threads === undefined ? {} : { threads }),
  };
}
