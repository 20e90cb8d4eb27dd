/**
 * The one GPU of this process: engine and learner see the same card and no other. It is chosen before llama.cpp is
 * loaded, by environment variables that both and their child processes read.
 */
import { HoneError, UsageError } from "../../core/util/errors.js";
import { type CudaMajor, cudaFor, majorOf } from "./cuda.js";
import { lookAtNvidia, type Machine, type NvidiaGpu, type NvidiaLook, thisMachine } from "./nvidia.js";
import {
  driverLibrary,
  findRuntime,
  isComplete,
  missingOf,
  type PythonPackages,
  packagesIn,
  type Runtime,
} from "./runtime.js";
import { chooseCard, describe, visibleGpus } from "./visible.js";

export interface DeviceChoice {
  /** As the option --gpu. */
  readonly gpu: "auto" | "cuda" | "vulkan" | "metal" | "off";
  /** As the option --device; undefined takes the first that is visible. */
  readonly device?: string | undefined;
}

/** The CUDA that is available for the chosen card. */
export interface CudaReport {
  /** Versions that card and driver can run, the best first. */
  readonly majors: readonly CudaMajor[];
  /** Libraries for the engine, as far as they were found; undefined where no version fits. */
  readonly runtime: Runtime | undefined;
  /** One line that says why the engine cannot use the card; undefined when nothing is known to be missing. */
  readonly problem: string | undefined;
}

export interface DeviceReport {
  readonly nvidia: NvidiaLook;
  /** There are NVIDIA GPUs, and CUDA_VISIBLE_DEVICES hides all of them: the user has chosen to use none. */
  readonly hidden: boolean;
  /** The NVIDIA GPU that is used unless --gpu says otherwise. */
  readonly card: NvidiaGpu | undefined;
  readonly cuda: CudaReport | undefined;
}

/**
 * The devices found on this machine and the one hone would choose. Changes nothing.
 *
 * @throws UsageError when `device` names no card
 */
export function reportDevice(
  choice: DeviceChoice,
  python: PythonPackages = packagesIn(),
  machine: Machine = thisMachine,
): DeviceReport {
  const { card, ...seen } = pick(choice, machine);
  return { ...seen, card, cuda: card && reportCuda(card, seen.nvidia, python, machine) };
}

type Picked = Omit<DeviceReport, "cuda">;

/** The device of this process. */
export interface TakenDevice extends Picked {
  /** Requested index on a machine without an NVIDIA GPU, or for Vulkan. */
  readonly vulkan: string | undefined;
}

function pick({ gpu, device }: DeviceChoice, machine: Machine): Picked {
  const nvidia = lookAtNvidia(machine);
  const visible = visibleGpus(nvidia.gpus, machine.env.CUDA_VISIBLE_DEVICES);
  const named = gpu === "auto" || gpu === "cuda" ? device : undefined;
  const card = nvidia.gpus.length > 0 ? chooseCard(nvidia.gpus, visible, named) : undefined;
  const there = nvidia.gpus.length > 0 || nvidia.problem !== undefined;
  return { nvidia, card, hidden: there && visible.length === 0 && machine.env.CUDA_VISIBLE_DEVICES !== undefined };
}

function reportCuda(card: NvidiaGpu, nvidia: NvidiaLook, python: PythonPackages, machine: Machine): CudaReport {
  const { majors, problem } = cudaFor(card, nvidia.driver);
  const built = majorOf(python.torchCuda);
  // The learner's version is the engine's too; without a learner, the best one whose libraries are installed.
  const runtime = findRuntime(built !== undefined && majors.includes(built) ? [built] : majors, python, machine);
  const lacking = runtime && !isComplete(runtime) ? missingOf(runtime).join(", ") : undefined;
  return {
    majors,
    runtime,
    problem:
      problem ??
      (lacking &&
        `${lacking} not found (CUDA ${runtime?.major}'s runtime libraries; neither in the Python environment nor in the system)`),
  };
}

interface Taken {
  readonly choice: DeviceChoice;
  readonly picked: TakenDevice;
  /** The cards that this process could have taken; none where none is. */
  readonly visible: readonly NvidiaGpu[];
  cuda: CudaReport | undefined;
}

/** One choice per process, as with llama.cpp's build. */
let taken: Taken | undefined;

/**
 * Chooses the card for the life of the process and hides all others from CUDA and Vulkan. A later call without `device`
 * gets the same one. Must be called on the main thread: variables set on other threads do not reach libraries.
 *
 * @throws UsageError when `device` names no card
 * @throws HoneError when another card was chosen before
 */
export function takeDevice(choice: DeviceChoice, machine: Machine = thisMachine): TakenDevice {
  if (taken) {
    if (choice.device !== undefined && choice.device !== taken.choice.device) {
      const before = taken.picked.card ? describe(taken.picked.card) : (taken.choice.device ?? "the first GPU");
      throw new HoneError(`device ${choice.device} was asked for, but this process already uses ${before}`);
    }
    return taken.picked;
  }
  const { gpu, device } = choice;
  if (device !== undefined && (gpu === "off" || gpu === "metal")) {
    throw new UsageError(
      gpu === "off" ? `--device ${device} names a GPU, and --gpu off uses none` : "--device: Metal has one device",
    );
  }
  const seen = pick(choice, machine);
  const { card, nvidia } = seen;
  const cuda = usesCuda(choice, seen);
  const picked = { ...seen, vulkan: cuda ? undefined : device };
  let visible: readonly NvidiaGpu[] = [];
  if (cuda && card) {
    visible = visibleGpus(nvidia.gpus, machine.env.CUDA_VISIBLE_DEVICES);
    machine.env.CUDA_DEVICE_ORDER = "PCI_BUS_ID";
    machine.env.CUDA_VISIBLE_DEVICES = idOf(card);
  } else if (device !== undefined) {
    if (gpu === "cuda" || !/^\d+$/.test(device)) {
      const why = nvidia.problem ? `: ${nvidia.problem}` : "";
      throw new UsageError(`--device ${device}: there is no NVIDIA GPU to choose${why}; for Vulkan give an index`);
    }
    machine.env.GGML_VK_VISIBLE_DEVICES = device;
  }
  taken = { choice, picked, visible, cuda: undefined };
  return picked;
}

/** As an entry of CUDA_VISIBLE_DEVICES. */
export const idOf = ({ uuid, index }: NvidiaGpu) => uuid ?? String(index);

/**
 * The cards of a learner of several processes, as CUDA_VISIBLE_DEVICES: `first`, by default the taken one, and then the others
 * that this process could have taken, without the one that is taken where `first` is another. undefined where none is taken.
 */
export function learnerCards(first?: NvidiaGpu): string | undefined {
  const cards = takenCards();
  if (!cards) return undefined;
  const engines = idOf(cards.card);
  const others = cards.visible.map(idOf).filter((id) => id !== engines);
  return [...new Set([first ? idOf(first) : engines, ...others])].join(",");
}

/** The cards of this process: the taken one, and all that it could have taken. undefined where none is taken. */
export function takenCards(): { card: NvidiaGpu; visible: readonly NvidiaGpu[]; nvidia: NvidiaLook } | undefined {
  if (!taken?.picked.card || taken.visible.length === 0) return undefined;
  const { card, nvidia } = taken.picked;
  return { card, visible: taken.visible, nvidia };
}

/** Whether engine and learner must compute on the card. */
export const usesCuda = ({ gpu }: DeviceChoice, { card }: Pick<DeviceReport, "card">) =>
  card !== undefined && (gpu === "auto" || gpu === "cuda");

/** Searches a Python environment and the system for the chosen card's CUDA; the engine loads the libraries found. */
export function lookForCuda(
  python: PythonPackages = packagesIn(),
  machine: Machine = thisMachine,
): CudaReport | undefined {
  if (!taken?.picked.card) return undefined;
  taken.cuda = reportCuda(taken.picked.card, taken.picked.nvidia, python, machine);
  return taken.cuda;
}

/** The last result of {@link lookForCuda}; searches now if there is none. */
export const cudaFound = (): CudaReport | undefined => taken?.cuda ?? lookForCuda();

/**
 * CUDA's libraries that the engine loads on the chosen card, as far as they were found, in loading order; none without a
 * card. Programs on llama.cpp's CUDA backend need their folders in LD_LIBRARY_PATH ({@link libraryPath}).
 */
export function cudaLibraries(): string[] {
  const found = cudaFound();
  if (found === undefined) return [];
  const libraries = found.runtime?.libraries ?? [];
  return [driverLibrary(), ...libraries.map(({ path }) => path)].filter((path) => path !== undefined);
}

/** The chosen device, or the default one: without the card where the CPU or Vulkan was chosen. */
export function currentDevice(): Picked {
  if (!taken) return pick({ gpu: "auto" }, thisMachine);
  const { choice, picked } = taken;
  return usesCuda(choice, picked) ? picked : { ...picked, card: undefined };
}
