/** The machines that hone is packed for. */
import type { Config } from "../../core/config/config.js";
import { HoneError } from "../../core/util/errors.js";
import { type CudaMajor, oldestDriver } from "../../engine/device/cuda.js";
import type { Build } from "../../engine/device/environment.js";

export interface Target {
  readonly name: NonNullable<Config["for"]>;
  /** Of PyTorch. */
  readonly build: Build;
  /** node-llama-cpp's packages of llama.cpp's libraries, without their scope. */
  readonly libraries: readonly string[];
  readonly cuda: { readonly major: CudaMajor; readonly driver: number } | null;
}

const cuda = (major: CudaMajor) => ({ major, driver: oldestDriver(major) });

const targets: Readonly<Record<Target["name"], Omit<Target, "name">>> = {
  "linux-x64-cpu": { build: "cpu", libraries: ["linux-x64"], cuda: null },
  "linux-x64-vulkan": { build: "cpu", libraries: ["linux-x64", "linux-x64-vulkan"], cuda: null },
  // The second package has the library for CUDA 12 alone; what it is linked to is in the first one.
  "linux-x64-cuda12": {
    build: "cuda12",
    libraries: ["linux-x64", "linux-x64-cuda", "linux-x64-cuda-ext"],
    cuda: cuda(12),
  },
  "linux-x64-cuda13": { build: "cuda13", libraries: ["linux-x64", "linux-x64-cuda"], cuda: cuda(13) },
};

/** @throws HoneError when this machine is of another kind: what is compiled is packed as it lies here */
export function targetNamed(
  name: Target["name"],
  here: { readonly platform: string; readonly arch: string } = process,
): Target {
  if (here.platform === "linux" && here.arch === "x64") return { name, ...targets[name] };
  throw new HoneError(
    `--for ${name}: hone is packed as it is installed, so pack it on Linux x64; this is ${here.platform} on ${here.arch}`,
  );
}
