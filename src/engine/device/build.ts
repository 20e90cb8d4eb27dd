/** The build of PyTorch that goes with a device, and the device that the learner computes on. */
import { type CudaMajor, cudaFor, majorOf } from "./cuda.js";
import type { DeviceReport } from "./device.js";
import type { Build } from "./environment.js";
import type { PythonPackages } from "./runtime.js";
import { describe } from "./visible.js";

/** The GPU of a machine. */
export type Device = Pick<DeviceReport, "card" | "nvidia">;

const fits = ({ card, nvidia }: Device): readonly CudaMajor[] => (card ? cudaFor(card, nvidia.driver).majors : []);

/** For the GPU of this machine; for the CPU where there is none, or none that a supported CUDA runs on. */
export function buildForMachine(device: Device): Build {
  const [major] = fits(device);
  return major === undefined ? "cpu" : `cuda${major}`;
}

/** Why the GPU cannot use a PyTorch; undefined when it can. */
export function unfit({ torchCuda }: Pick<PythonPackages, "torchCuda">, device: Device): string | undefined {
  const majors = fits(device);
  const { card, nvidia } = device;
  if (!card || majors.length === 0) return undefined;
  if (torchCuda === null || torchCuda === undefined) return `without CUDA, but there is ${describe(card)}`;
  const major = majorOf(torchCuda);
  if (major !== undefined && majors.includes(major)) return undefined;
  return `for CUDA ${torchCuda}, but ${describe(card)} with driver ${nvidia.driver ?? "unknown"} runs CUDA ${majors.join(" or ")}`;
}

/** The learner's device beside an engine, unless it is chosen (learner-place.ts), and notes for the user about it. */
export function learnerDevice(backend: "cuda" | "vulkan" | "metal" | false): {
  readonly device: "cuda" | "cpu";
  readonly note?: string;
} {
  if (backend === "cuda") return { device: "cuda" };
  if (backend === false) return { device: "cpu" };
  const why = backend === "vulkan" ? "PyTorch has no Vulkan" : "it has no Metal backend";
  return { device: "cpu", note: `the learner computes on the CPU: ${why}` };
}
