/** Why no build of llama.cpp could be loaded, as far as the machine tells, and how to go on. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { messageOf } from "../util/index.js";
import type { Gpu } from "./engine.js";

type GpuName = Exclude<Gpu, "auto" | false>;

export const gpuTitles: Readonly<Record<GpuName, string>> = { cuda: "CUDA", vulkan: "Vulkan", metal: "Metal" };

/** Shared libraries that the backends of the pinned node-llama-cpp are linked to on Linux, and where they come from. */
export const gpuLibraries: Readonly<Record<GpuName, readonly { names: readonly string[]; source: string }[]>> = {
  cuda: [
    { names: ["libcuda.so.1"], source: "NVIDIA's driver" },
    { names: ["libcudart.so.13", "libcublas.so.13"], source: "CUDA 13's runtime libraries" },
  ],
  vulkan: [{ names: ["libvulkan.so.1"], source: "the Vulkan loader" }],
  metal: [],
};

/** What is asked of the machine. */
export interface MachineLook {
  readonly platform: NodeJS.Platform;
  readonly arch: string;
  /** Is that package of llama.cpp's binaries installed? */
  installed(name: string): boolean;
  /** Does the dynamic loader find that shared library? */
  finds(library: string): boolean;
}

export const thisMachine: MachineLook = {
  platform: process.platform,
  arch: process.arch,
  installed(name) {
    const folders = createRequire(import.meta.url).resolve.paths(name) ?? [];
    return folders.some((folder) => existsSync(join(folder, name, "bins")));
  },
  finds(library) {
    try {
      process.dlopen({ exports: {} }, library);
    } catch (error) {
      // Only the loader can say whether it finds a library; one that is no addon of Node is found and then refused.
      return !/cannot open shared object file/.test(messageOf(error));
    }
    return true;
  },
};

const systems: Partial<Record<NodeJS.Platform, string>> = { darwin: "mac", win32: "win" };

const GO_ON = "use --gpu auto, which takes the best there is, or --gpu off for the CPU";

/** One line: what of a GPU's backend is missing. */
export function whyNoGpu(gpu: GpuName, { platform, arch, installed, finds }: MachineLook = thisMachine): string {
  const name = `@node-llama-cpp/${systems[platform] ?? platform}-${arch}-${gpu}`;
  const reasons: string[] = [];
  if (!installed(name)) reasons.push(`no build of it for ${platform} ${arch} is installed (looked for ${name})`);
  if (platform === "linux") {
    for (const { names, source } of gpuLibraries[gpu]) {
      const missing = names.filter((library) => !finds(library));
      if (missing.length > 0) reasons.push(`${missing.join(", ")} not found (${source})`);
    }
  }
  if (reasons.length === 0)
    reasons.push("nothing that it needs is known to be missing; `npx node-llama-cpp inspect gpu` tells more");
  return `--gpu ${gpu}: llama.cpp's ${gpuTitles[gpu]} backend cannot be loaded: ${reasons.join("; ")}; ${GO_ON}`;
}

/** One line for a backend that does not exist on this kind of machine. */
export function noSuchGpu(gpu: GpuName, { platform, arch }: MachineLook = thisMachine): string {
  return `--gpu ${gpu}: llama.cpp has no ${gpuTitles[gpu]} backend on ${platform} ${arch}; ${GO_ON}`;
}

/** One line for a backend that was loaded and has nothing to compute on. */
export function noDevice(gpu: GpuName): string {
  const hint = gpu === "cuda" ? " (does `nvidia-smi` list one, and does CUDA_VISIBLE_DEVICES name it?)" : "";
  return `--gpu ${gpu}: llama.cpp's ${gpuTitles[gpu]} backend finds no device${hint}; ${GO_ON}`;
}

/** One line for a machine on which not even the CPU's build can be loaded. */
export function whyNoCpu({ platform, arch, installed }: MachineLook = thisMachine): string {
  const name = `@node-llama-cpp/${systems[platform] ?? platform}-${arch}${platform === "darwin" && arch === "arm64" ? "-metal" : ""}`;
  return installed(name)
    ? `the llama.cpp of ${name} cannot be loaded here; \`npx node-llama-cpp source download\` compiles one for this machine`
    : `no llama.cpp for ${platform} ${arch} is installed (looked for ${name}): run \`yarn install --force\`, or \`npx node-llama-cpp source download\`, which compiles it`;
}
