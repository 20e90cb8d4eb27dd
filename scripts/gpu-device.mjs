// The device for `yarn test:gpu`: CUDA with an NVIDIA GPU, else a GPU with a Vulkan driver, else Mesa's llvmpipe, a
// Vulkan device that computes on the CPU.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Mesa 22.3's llvmpipe corrupts its own heap; 25 is the first version known to train. */
export const LEAST_MESA = 25;

const INSTALL = "`bash scripts/software-gpu.sh`, as root, installs one on Debian 12 (from backports) and later ones";

/**
 * @typedef {{ index: number, name: string, kind: string, driver: string, info: string }} VulkanDevice
 * @typedef {{
 *   nvidia: { name: string, driver: string }[],
 *   vulkan: { devices: VulkanDevice[], why: string },
 *   visible?: string | undefined,
 *   software?: boolean,
 * }} Machine `visible` is GGML_VK_VISIBLE_DEVICES; `software` asks for llvmpipe, whatever else there is
 * @typedef {{ backend: "cuda" | "vulkan", name: string, driver: string, software: boolean, env: Record<string, string> }} Device
 */

const isSoftware = ({ driver, kind }) => kind === "cpu" && driver === "llvmpipe";

/** @returns {number} 0 for a driver that is not Mesa's */
export const mesaVersion = ({ info }) => Number(/\bMesa (\d+)\./.exec(info)?.[1] ?? 0);

/**
 * @param {Machine} machine
 * @returns {{ device: Device } | { notRun: string }}
 */
export function chooseDevice({ nvidia, vulkan, visible, software = false }) {
  const [card] = nvidia;
  if (card && !software) return { device: { backend: "cuda", ...card, software: false, env: {} } };

  const first = visible?.split(",")[0]?.trim();
  const named = first && !software ? vulkan.devices.find(({ index }) => String(index) === first) : undefined;
  if (first && !software && !named) {
    const indices = vulkan.devices.map(({ index, name }) => `${index} (${name})`).join(", ") || vulkan.why;
    return { notRun: `GGML_VK_VISIBLE_DEVICES names device ${first}; there is: ${indices}` };
  }
  const real = ({ kind }) => kind === "discrete" || kind === "integrated";
  const taken = named ?? (software ? undefined : vulkan.devices.find(real)) ?? vulkan.devices.find(isSoftware);
  if (!taken) {
    const others = vulkan.devices.map(({ name }) => name).join(", ");
    const why = others
      ? `of the Vulkan devices (${others}) none is ${software ? "llvmpipe" : "a GPU or llvmpipe"}`
      : vulkan.why;
    return { notRun: `there is no device to test on: ${software ? "" : "no NVIDIA GPU, and "}${why}; ${INSTALL}` };
  }
  if (isSoftware(taken) && mesaVersion(taken) < LEAST_MESA) {
    return {
      notRun: `${taken.name} is of ${taken.info}, which corrupts its own heap; it takes Mesa ${LEAST_MESA} or newer: ${INSTALL}`,
    };
  }
  const env = { GGML_VK_VISIBLE_DEVICES: String(taken.index) };
  const { name, driver, info } = taken;
  return { device: { backend: "vulkan", name, driver: `${driver} ${info}`, software: isSoftware(taken), env } };
}

/** Lines of a program's output; none if it is missing or fails. */
function lines(program, ...args) {
  const { status, stdout } = spawnSync(program, args, { encoding: "utf8" });
  return status === 0 ? stdout.split("\n").filter(Boolean) : [];
}

/** @returns {Machine["vulkan"]} */
function vulkanDevices() {
  const script = fileURLToPath(new URL("./vulkan-devices.py", import.meta.url));
  const [said] = lines("python3", script);
  return said ? JSON.parse(said) : { devices: [], why: "python3, which asks the Vulkan loader, failed" };
}

/** @returns {Machine} */
export function lookAtMachine() {
  // -L lists the usable GPUs, also with drivers that do not know a field of the query below.
  const nvidia = lines("nvidia-smi", "-L").filter((line) => line.startsWith("GPU "));
  const [version = "unknown"] =
    nvidia.length > 0 ? lines("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") : [];
  return {
    nvidia: nvidia.map((line) => ({
      name: line.replace(/^GPU \d+: /, "").replace(/ \(UUID: .*/, ""),
      driver: `NVIDIA driver ${version}`,
    })),
    vulkan: vulkanDevices(),
    visible: process.env.GGML_VK_VISIBLE_DEVICES,
  };
}

// `node scripts/gpu-device.mjs` prints the device, and fails if there is none. Used by scripts/software-gpu.sh.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const software = process.argv.includes("--software");
  const { device, notRun } = chooseDevice({ ...lookAtMachine(), software });
  console.log(device ? `${device.backend}: ${device.name}, ${device.driver}` : notRun);
  process.exit(device ? 0 : 1);
}
