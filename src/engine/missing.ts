/** Determines why no build of llama.cpp could be loaded, and how to continue. */
import { existsSync, readdirSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import type { Gpu } from "../core/engine/engine.js";
import { messageOf } from "../core/util/errors.js";
import { packageRoot } from "../core/util/paths.js";
import { hone, isInstalled, reinstall } from "../core/util/program.js";
import type { CudaMajor } from "./device/cuda.js";
import type { NvidiaGpu } from "./device/nvidia.js";
import { DRIVER_LIBRARY, runtimeNames } from "./device/runtime.js";
import { describe } from "./device/visible.js";
import { fetchedLibraries, LLAMA_VERSION, librariesFolder } from "./libraries.js";

type GpuName = Exclude<Gpu, "auto" | false>;

export const gpuTitles: Readonly<Record<GpuName, string>> = { cuda: "CUDA", vulkan: "Vulkan", metal: "Metal" };

/** Shared libraries that the backends of the pinned node-llama-cpp are linked to on Linux, and their packages. */
export const gpuLibraries: Readonly<Record<GpuName, readonly { names: readonly string[]; source: string }[]>> = {
  cuda: [
    { names: [DRIVER_LIBRARY], source: "NVIDIA's driver" },
    // cublasLt is needed by cublas.
    { names: runtimeNames(13).filter((name) => !name.includes("Lt")), source: "CUDA 13's runtime libraries" },
  ],
  vulkan: [{ names: ["libvulkan.so.1"], source: "the Vulkan loader" }],
  metal: [],
};

/** Queries about the machine. */
export interface MachineLook {
  readonly platform: NodeJS.Platform;
  readonly arch: string;
  /** Folder of that package of llama.cpp's binaries; undefined where it is neither installed nor fetched. */
  bins(name: string): string | undefined;
  /** Whether the dynamic loader finds that shared library. */
  finds(library: string): boolean;
}

export const thisMachine: MachineLook = {
  platform: process.platform,
  arch: process.arch,
  bins(name) {
    const folders = [...(createRequire(import.meta.url).resolve.paths(name) ?? []), librariesFolder()];
    const found = folders.map((folder) => join(folder, name, "bins")).find((folder) => existsSync(folder));
    return found === undefined ? undefined : realpathSync(found);
  },
  finds(library) {
    try {
      process.dlopen({ exports: {} }, library);
    } catch (error) {
      // Only the loader knows whether it finds a library; one that is no addon of Node is found and then refused.
      return !/cannot open shared object file/.test(messageOf(error));
    }
    return true;
  },
};

const systems: Partial<Record<NodeJS.Platform, string>> = { darwin: "mac", win32: "win" };

const GO_ON = "use --gpu auto, which takes the best there is, or --gpu off for the CPU";
/** With a card in the machine, auto requires it too. */
const WITHOUT = "mend that, or go on without it: --gpu off for the CPU, or --gpu vulkan";

const packageOf = (gpu: GpuName, { platform, arch }: MachineLook) =>
  `@node-llama-cpp/${systems[platform] ?? platform}-${arch}-${gpu}`;

const cpuPackage = ({ platform, arch }: MachineLook) =>
  `@node-llama-cpp/${systems[platform] ?? platform}-${arch}${platform === "darwin" && arch === "arm64" ? "-metal" : ""}`;

const isFetched = (name: string) => Object.hasOwn(fetchedLibraries, name);

function notInstalled(name: string, { platform, arch }: MachineLook): string {
  const remedy = isFetched(name) ? `; \`${hone("doctor")} --install\` fetches it` : "";
  return `no build of it for ${platform} ${arch} is installed (looked for ${name})${remedy}`;
}

/**
 * Packages of llama.cpp's libraries that a GPU needs, are not there, and can be fetched.
 * @param major of CUDA
 */
export function lackingLibraries(gpu: GpuName, major?: CudaMajor, look = thisMachine): string[] {
  const name = packageOf(gpu, look);
  const names = major === 12 ? [name, `${name}-ext`] : [name];
  return names.filter((one) => look.bins(one) === undefined && isFetched(one));
}

/** A command of node-llama-cpp's program, which npx does not find where hone brings it inside. */
export function llamaCommand(words: string): string {
  const inside = join(packageRoot, "node_modules/node-llama-cpp/dist/cli/cli.js");
  return `\`${isInstalled() && existsSync(inside) ? `node ${relative(process.cwd(), inside)}` : "npx --no -- node-llama-cpp"} ${words}\``;
}

/** llama.cpp's CUDA backend for one CUDA version and the library it needs; or why it is missing. */
export function cudaBackend(major: CudaMajor, look: MachineLook): { base: string; file: string } | { missing: string } {
  const name = packageOf("cuda", look);
  const main = look.bins(name);
  const ext = look.bins(`${name}-ext`);
  const folder = name.slice(name.indexOf("/") + 1);
  if (main === undefined) return { missing: notInstalled(name, look) };
  if (major === 12 && ext === undefined) return { missing: notInstalled(`${name}-ext`, look) };
  const base = join(main, folder, "libggml-base.so");
  const inside = major === 12 ? join(ext as string, folder, "fallback") : join(main, folder);
  return { base, file: join(inside, "libggml-cuda.so") };
}

/** The builds of llama.cpp that are installed for this kind of machine. */
export function installedBackends(look = thisMachine): readonly ("cpu" | GpuName)[] {
  const gpus = (["cuda", "vulkan", "metal"] as const).filter((gpu) => look.bins(packageOf(gpu, look)) !== undefined);
  return look.bins(cpuPackage(look)) === undefined ? gpus : ["cpu", ...gpus];
}

/** A file of the CPU's build of llama.cpp, one folder for each kind of machine; undefined where it is not installed. */
function ofCpu(file: string, look: MachineLook): string | undefined {
  const name = cpuPackage(look);
  const bins = look.bins(name);
  const path = bins && join(bins, name.slice(name.indexOf("/") + 1), file);
  return path !== undefined && existsSync(path) ? path : undefined;
}

/** ggml's base library, as it comes with the CPU's build of llama.cpp; undefined where that is not installed. */
export function ggmlBase(look = thisMachine): string | undefined {
  const [prefix, extension] = { darwin: ["lib", "dylib"], win32: ["", "dll"] }[look.platform as string] ?? [
    "lib",
    "so",
  ];
  return ofCpu(`${prefix}ggml-base.${extension}`, look);
}

/** node-llama-cpp's binding for the CPU, which has llama.cpp's libraries beside it; undefined where that is not installed. */
export const cpuBinding = (look = thisMachine): string | undefined => ofCpu("llama-addon.node", look);

/** Whether the user has compiled llama.cpp by node-llama-cpp's program, whose result it prefers. */
export const hasCompiledBuild = (): boolean =>
  existsSync(join(dirname(createRequire(import.meta.url).resolve("node-llama-cpp")), "../llama/localBuilds"));

/** Whether a CUDA build of llama.cpp exists for this kind of machine. */
export function cudaExists(look = thisMachine): boolean {
  const name = packageOf("cuda", look);
  return isFetched(name) || look.bins(name) !== undefined;
}

const CARDS = "/dev/dri";

/** Whether this machine has the loader that Vulkan needs: without it llama.cpp's library for Vulkan is of no use. */
export const hasVulkan = (look = thisMachine) =>
  look.platform === "linux" && gpuLibraries.vulkan.every(({ names }) => names.every((name) => look.finds(name)));

/** Whether it has a GPU too, whose maker does not matter. */
export const hasVulkanCard = (look = thisMachine) =>
  hasVulkan(look) && existsSync(CARDS) && readdirSync(CARDS).some((name) => name.startsWith("renderD"));

/** One line naming the missing part of a GPU's backend. */
export function whyNoGpu(gpu: GpuName, look: MachineLook = thisMachine): string {
  const name = packageOf(gpu, look);
  const reasons: string[] = [];
  if (look.platform === "linux") {
    for (const { names, source } of gpuLibraries[gpu]) {
      const missing = names.filter((library) => !look.finds(library));
      if (missing.length > 0) reasons.push(`${missing.join(", ")} not found (${source})`);
    }
  }
  // What can be fetched is, as soon as it would be of use.
  if (look.bins(name) === undefined && (reasons.length === 0 || !isFetched(name))) {
    reasons.unshift(notInstalled(name, look));
  }
  if (reasons.length === 0)
    reasons.push(`nothing that it needs is known to be missing; ${llamaCommand("inspect gpu")} tells more`);
  return `--gpu ${gpu}: llama.cpp's ${gpuTitles[gpu]} backend cannot be loaded: ${reasons.join("; ")}; ${GO_ON}`;
}

/** One line for an NVIDIA GPU that is there and cannot be used. */
export function unusedCard(
  about: { readonly named: boolean; readonly card: NvidiaGpu | undefined; readonly driver: string | undefined },
  reason: string,
): string {
  const { named, card, driver } = about;
  const who = `${card ? describe(card) : "the NVIDIA GPU"}, driver ${driver ?? "unknown"}`;
  return `--gpu ${named ? "cuda" : "auto"}: llama.cpp cannot use the NVIDIA GPU (${who}): ${reason}; ${WITHOUT}`;
}

/** One line for a card whose driver does not answer. */
export const nvidiaBroken = (problem: string) =>
  `--gpu auto: this machine has an NVIDIA GPU, but its driver does not work: ${problem}; ${WITHOUT}`;

/** One line for a backend that does not exist on this kind of machine. */
export function noSuchGpu(gpu: GpuName, { platform, arch }: MachineLook = thisMachine): string {
  return `--gpu ${gpu}: llama.cpp has no ${gpuTitles[gpu]} backend on ${platform} ${arch}; ${GO_ON}`;
}

/** One line for a backend that was loaded and has no device. */
export function noDevice(gpu: GpuName): string {
  const hint = gpu === "cuda" ? " (does `nvidia-smi` list one, and does CUDA_VISIBLE_DEVICES name it?)" : "";
  return `--gpu ${gpu}: llama.cpp's ${gpuTitles[gpu]} backend finds no device${hint}; ${GO_ON}`;
}

/** One line for an index that Vulkan does not have. */
export const noVulkanDevice = (device: string) =>
  `--device ${device}: llama.cpp's Vulkan backend cannot use such a device; \`vulkaninfo --summary\` lists them (GPU0 is 0)`;

/** One line for a machine on which not even the CPU's build can be loaded. */
export function whyNoCpu(look: MachineLook = thisMachine): string {
  const { platform, arch } = look;
  const name = cpuPackage(look);
  const bring = isInstalled() ? `\`npm install ${name}@${LLAMA_VERSION}\`` : reinstall();
  return look.bins(name) !== undefined
    ? `the llama.cpp of ${name} cannot be loaded here; ${llamaCommand("source download")} compiles one for this machine`
    : `no llama.cpp for ${platform} ${arch} is installed (looked for ${name}): run ${bring}, or ${llamaCommand("source download")}, which compiles it`;
}
