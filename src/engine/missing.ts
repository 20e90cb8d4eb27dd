/** Determines why no build of llama.cpp could be loaded, and how to continue. */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { join, relative } from "node:path";
import { type CudaMajor, DRIVER_LIBRARY, describe, type NvidiaGpu, runtimeNames } from "../device/index.js";
import { isInstalled, messageOf, packageRoot, reinstall } from "../util/index.js";
import type { Gpu } from "./engine.js";

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
  /** Folder of that package of llama.cpp's binaries; undefined where it is not installed. */
  bins(name: string): string | undefined;
  /** Whether the dynamic loader finds that shared library. */
  finds(library: string): boolean;
}

export const thisMachine: MachineLook = {
  platform: process.platform,
  arch: process.arch,
  bins(name) {
    const folders = createRequire(import.meta.url).resolve.paths(name) ?? [];
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

/** A published hone names the libraries for GPUs, with their version, as packages that its user installs. */
const peers = (): Readonly<Record<string, string>> =>
  JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")).peerDependencies ?? {};

/** The command that installs packages of llama.cpp's libraries. */
export function bringsLibraries(names: readonly string[]): string {
  const known = peers();
  if (!names.every((name) => known[name])) return reinstall();
  return `\`npm install ${names.map((name) => `${name}@${known[name]}`).join(" ")}\``;
}

function notInstalled(name: string, { platform, arch }: MachineLook): string {
  const remedy = peers()[name] === undefined ? "" : `; ${bringsLibraries([name])} brings it`;
  return `no build of it for ${platform} ${arch} is installed (looked for ${name})${remedy}`;
}

/** A command of node-llama-cpp's program, which npx does not find where hone brings it inside. */
export function llamaCommand(words: string): string {
  const inside = join(packageRoot, "node_modules/node-llama-cpp/dist/cli/cli.js");
  return `\`${isInstalled() && existsSync(inside) ? `node ${relative(process.cwd(), inside)}` : "npx node-llama-cpp"} ${words}\``;
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

/** Whether a CUDA build of llama.cpp exists for this kind of machine. */
export const cudaIsInstalled = () => thisMachine.bins(packageOf("cuda", thisMachine)) !== undefined;

/** One line naming the missing part of a GPU's backend. */
export function whyNoGpu(gpu: GpuName, look: MachineLook = thisMachine): string {
  const name = packageOf(gpu, look);
  const reasons: string[] = [];
  if (look.bins(name) === undefined) reasons.push(notInstalled(name, look));
  if (look.platform === "linux") {
    for (const { names, source } of gpuLibraries[gpu]) {
      const missing = names.filter((library) => !look.finds(library));
      if (missing.length > 0) reasons.push(`${missing.join(", ")} not found (${source})`);
    }
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
  return look.bins(name) !== undefined
    ? `the llama.cpp of ${name} cannot be loaded here; ${llamaCommand("source download")} compiles one for this machine`
    : `no llama.cpp for ${platform} ${arch} is installed (looked for ${name}): run ${bringsLibraries([name])}, or ${llamaCommand("source download")}, which compiles it`;
}
