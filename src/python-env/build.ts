/** Which build of PyTorch this machine needs, and whether the installed one is that build. */
import {
  type CudaMajor,
  cudaFor,
  type DeviceReport,
  describe,
  majorOf,
  type PythonPackages,
  packagesIn,
} from "../device/index.js";
import { HoneError } from "../util/index.js";
import { type Build, buildTitles, readStamp, type Stamp } from "./stamp.js";

type Device = Pick<DeviceReport, "card" | "nvidia">;

const fits = ({ card, nvidia }: Device): readonly CudaMajor[] => (card ? cudaFor(card, nvidia.driver).majors : []);

/** For the GPU of this machine; for the CPU where there is none, or none that a supported CUDA runs on. */
export function buildForMachine(device: Device): Build {
  const [major] = fits(device);
  return major === undefined ? "cpu" : `cuda${major}`;
}

/** The build that an environment was made for. */
export function deviceOf(folder: string, stamp: Stamp | undefined): Build {
  if (stamp?.device) return stamp.device;
  const major = majorOf(packagesIn(folder).torchCuda);
  return major === undefined ? "cpu" : `cuda${major}`;
}

/** One line that says why an existing environment is rebuilt; undefined when it is not. */
export function whyAnew(folder: string, build: Build, { card, nvidia }: Device): string | undefined {
  const stamp = readStamp(folder);
  if (!stamp) return undefined;
  const before = deviceOf(folder, stamp);
  if (build === "cpu" || before === build)
    return "hone's Python requirements have changed: the environment is made anew";
  const gpu = card ? `${describe(card)}, driver ${nvidia.driver ?? "unknown"},` : "the GPU";
  return `the Python environment was made for ${buildTitles[before]}, and ${gpu} needs ${buildTitles[build]}: it is made anew`;
}

/**
 * Checks the result of an installation: an index or a folder of wheels given by the user may hold another build.
 *
 * @throws HoneError when the GPU cannot use it
 */
export function checkBuild(
  { torchCuda }: PythonPackages,
  build: Build,
  device: Device,
  index: string | undefined,
): void {
  if (build === "cpu") return;
  const from = index === undefined ? "the package index" : index;
  const lack = unfit(torchCuda, device);
  if (lack === undefined) return;
  throw new HoneError(
    `${from} gave a PyTorch ${lack}; give one with a build for ${buildTitles[build]} (--torch-index), or use --gpu off`,
  );
}

/** @throws HoneError when the GPU cannot use the PyTorch of a Python that the user named */
export function checkGivenBuild(python: string, { torchCuda }: PythonPackages, device: Device): void {
  // PyTorch is not in the usual place for packages: the learner itself will check.
  if (torchCuda === undefined) return;
  const lack = unfit(torchCuda, device);
  if (lack === undefined) return;
  const build = buildForMachine(device);
  throw new HoneError(
    `--python ${python} has a PyTorch ${lack}; install one for ${buildTitles[build]} there, leave --python out, or use --gpu off`,
  );
}

function unfit(torchCuda: string | null | undefined, device: Device): string | undefined {
  const majors = fits(device);
  const { card, nvidia } = device;
  if (!card || majors.length === 0) return undefined;
  if (torchCuda === null || torchCuda === undefined) return `without CUDA, but there is ${describe(card)}`;
  const major = majorOf(torchCuda);
  if (major !== undefined && majors.includes(major)) return undefined;
  return `for CUDA ${torchCuda}, but ${describe(card)} with driver ${nvidia.driver ?? "unknown"} runs CUDA ${majors.join(" or ")}`;
}
