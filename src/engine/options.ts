/** Converts the options `--gpu`, `--device`, `--threads`, `--draft` and `--sampling` to an engine's options. */
import { guessesOf } from "../config/index.js";
import type { EngineOptions, Gpu, SamplingPlace } from "./engine.js";

export interface MachineChoice {
  /** "off" computes on the CPU alone. */
  readonly gpu: Exclude<Gpu, false> | "off";
  /** See {@link EngineOptions.device}. */
  readonly device: string | undefined;
  /** undefined uses the default of {@link EngineOptions.threads}. */
  readonly threads: number | undefined;
  /** "auto", "off" or a number; without it the default of {@link EngineOptions.draft}. */
  readonly draft?: string;
  /** See {@link EngineOptions.sampling}. */
  readonly sampling?: SamplingPlace;
}

export const gpuChosen = ({ gpu }: Pick<MachineChoice, "gpu">): Gpu => (gpu === "off" ? false : gpu);

/** Options of an engine on the chosen part of this machine. */
export function engineOptions<O extends Omit<EngineOptions, "gpu" | "device" | "threads" | "draft" | "sampling">>(
  machine: MachineChoice,
  others: O,
) {
  const { device, threads, draft, sampling } = machine;
  return {
    ...others,
    gpu: gpuChosen(machine),
    ...(device === undefined ? {} : { device }),
    ...(threads === undefined ? {} : { threads }),
    ...(draft === undefined ? {} : { draft: guessesOf(draft) }),
    ...(sampling === undefined ? {} : { sampling }),
  };
}
