/** Converts the options of the machine, `--gpu` to `--ubatch`, to an engine's options. */
import type { Gpu, LocalEngineOptions, SamplingPlace } from "./engine.js";

export interface MachineChoice {
  /** "off" computes on the CPU alone. */
  readonly gpu: Exclude<Gpu, false> | "off";
  /** See {@link LocalEngineOptions.device}. */
  readonly device: string | undefined;
  /** undefined uses the default of {@link LocalEngineOptions.threads}. */
  readonly threads: number | undefined;
  /** See {@link LocalEngineOptions.sampling}. */
  readonly sampling?: SamplingPlace;
  /** See {@link LocalEngineOptions.lanes}. */
  readonly lanes?: number | undefined;
  /** See {@link LocalEngineOptions.ubatch}. */
  readonly ubatch?: number | undefined;
}

/**
 * Number of sequences of an engine that plays rollouts. Each lane that was asked for has one, unless fewer rollouts at once
 * were asked for as well: loading the engine refuses that.
 *
 * @param most rollouts at once where nobody said how many
 * @param rollouts number of rollouts in all; more sequences would be idle
 */
export function sequencesFor(
  { concurrency, lanes = 1 }: { readonly [option in "concurrency" | "lanes"]?: number | undefined },
  most: number,
  rollouts = Number.POSITIVE_INFINITY,
): number {
  return Math.min(concurrency ?? Math.max(most, lanes), Math.max(rollouts, lanes));
}

/** Whether tokens are to be drawn on the device: by default on CUDA, where logits would be copied over the bus. */
export const drawsOnDevice = (sampling: SamplingPlace = "auto", gpu: Gpu): boolean =>
  sampling === "device" || (sampling === "auto" && gpu === "cuda");

export const gpuChosen = ({ gpu }: Pick<MachineChoice, "gpu">): Gpu => (gpu === "off" ? false : gpu);

/** Options of an engine on the chosen part of this machine. `others` may have a default number of lanes, and of `ubatch`. */
export function engineOptions<O extends Omit<LocalEngineOptions, "gpu" | "device" | "threads" | "sampling">>(
  machine: MachineChoice,
  others: O,
) {
  const { device, threads, sampling, lanes, ubatch } = machine;
  return {
    ...others,
    gpu: gpuChosen(machine),
    ...(device === undefined ? {} : { device }),
    ...(threads === undefined ? {} : { threads }),
    ...(sampling === undefined ? {} : { sampling }),
    ...(lanes === undefined ? {} : { lanes }),
    ...(ubatch === undefined ? {} : { ubatch }),
  };
}
