/** Checks of the GPU: llama.cpp's backends, cards and their driver, CUDA for engine and learner. */

import { messageOf } from "../../core/util/errors.js";
import { hone, reinstall } from "../../core/util/program.js";
import { loadAddon } from "../../engine/addon.js";
import { capabilityText, majorOf } from "../../engine/device/cuda.js";
import type { DeviceChoice, DeviceReport } from "../../engine/device/device.js";
import { isComplete } from "../../engine/device/runtime.js";
import { describe } from "../../engine/device/visible.js";
import { gpuTitles, installedBackends, llamaCommand } from "../../engine/missing.js";
import { type Check, none, note, ok, wrong } from "./check.js";

export function checkAddon(): Check {
  try {
    loadAddon();
    return ok("addon", "hone's engine is built and loads");
  } catch (error) {
    return wrong("addon", messageOf(error), `run ${reinstall()}`);
  }
}

export function checkBackends(): Check {
  const installed = installedBackends();
  const names = installed.map((one) => (one === "cpu" ? "CPU" : gpuTitles[one]));
  const facts = { installed };
  if (names.length > 0) return ok("llama.cpp", `builds for ${names.join(", ")} are installed`, facts);
  return wrong(
    "llama.cpp",
    "no build is installed",
    `run ${reinstall()}, or ${llamaCommand("source download")}`,
    facts,
  );
}

const gigabytes = (bytes: number | undefined) => (bytes === undefined ? "" : `, ${(bytes / 1e9).toFixed(1)} GB`);

/** NVIDIA's cards; other makers' cards show when the engine is tried. */
export function checkCard({ nvidia, hidden, card }: DeviceReport, gpu: DeviceChoice["gpu"]): Check {
  const facts = { gpus: nvidia.gpus, card: card ?? null, hidden };
  const used = gpu === "auto" || gpu === "cuda";
  if (nvidia.problem !== undefined && !hidden) {
    const mend = "install or mend NVIDIA's driver";
    if (!used) return note("gpu", nvidia.problem, mend, facts);
    return wrong("gpu", nvidia.problem, `${mend}, or give --gpu off`, facts);
  }
  if (hidden) return none("gpu", "CUDA_VISIBLE_DEVICES hides every NVIDIA GPU", facts);
  if (!card) return none("gpu", "no NVIDIA GPU", facts);
  const capability = card.capability === undefined ? "" : `, compute capability ${capabilityText(card.capability)}`;
  const others = nvidia.gpus.length > 1 ? `; one of ${nvidia.gpus.length}, see --device` : "";
  const found = `${describe(card)}${gigabytes(card.memoryBytes)}${capability}${others}`;
  return used ? ok("gpu", found, facts) : note("gpu", found, `--gpu ${gpu} leaves it unused`, facts);
}

const noCuda = (gpu: DeviceChoice["gpu"]) => `--gpu ${gpu} uses no CUDA`;

export function checkDriver({ nvidia, card, cuda }: DeviceReport, gpu: DeviceChoice["gpu"]): Check {
  const { driver } = nvidia;
  if (card && gpu !== "auto" && gpu !== "cuda") return none("driver", `${driver ?? "not known"}; ${noCuda(gpu)}`);
  const facts = { driver: driver ?? null, majors: cuda?.majors ?? [] };
  if (!card) return none("driver", driver === undefined ? "no NVIDIA driver" : `${driver}, for no card`, facts);
  const words = driver ?? "its version is not known";
  const majors = cuda?.majors ?? [];
  if (majors.length > 0) return ok("driver", `${words}: runs CUDA ${majors.join(" and ")}`, facts);
  return wrong("driver", cuda?.problem ?? words, "install a newer NVIDIA driver, or give --gpu off", facts);
}

/**
 * One major version for both sides.
 * @param torchCuda CUDA version of PyTorch's build; null for a CPU build, undefined without PyTorch
 */
export function checkCuda(
  { card, cuda }: DeviceReport,
  torchCuda: string | null | undefined,
  gpu: DeviceChoice["gpu"],
): Check {
  if (card && gpu !== "auto" && gpu !== "cuda") return none("cuda", noCuda(gpu));
  const runtime = cuda?.runtime;
  const facts = { engine: runtime ?? null, learner: torchCuda ?? null };
  if (!card || !cuda || cuda.majors.length === 0) return none("cuda", "no card that runs CUDA", facts);
  const install = `\`${hone("doctor")} --install\` makes the learner's environment with them, or give --gpu off`;
  if (!runtime || !isComplete(runtime)) return wrong("cuda", cuda.problem ?? "no runtime libraries", install, facts);
  const engine = `engine: CUDA ${runtime.major} (libraries of ${runtime.from})`;
  if (torchCuda === undefined) return note("cuda", `${engine}, learner: no PyTorch yet`, install, facts);
  if (torchCuda === null) return wrong("cuda", `${engine}, learner: a PyTorch for the CPU`, install, facts);
  const found = `${engine}, learner: PyTorch for CUDA ${torchCuda}`;
  const major = majorOf(torchCuda);
  if (major !== undefined && cuda.majors.includes(major)) {
    return major === runtime.major
      ? ok("cuda", found, facts)
      : wrong("cuda", found, "both must have one major version", facts);
  }
  return wrong("cuda", `${found}, which this driver does not run`, install, facts);
}
