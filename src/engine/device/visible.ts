/** Which of the machine's NVIDIA GPUs this process may use, and which one it takes. */
import { UsageError } from "../../core/util/errors.js";
import type { NvidiaGpu } from "./nvidia.js";

/**
 * The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order; undefined, the variable not set, leaves all. As CUDA reads
 * it: a list ends at its first entry that names no card, so "" and "-1" hide all. Indices are nvidia-smi's: CUDA's own
 * order differs from it unless CUDA_DEVICE_ORDER is PCI_BUS_ID, which hone sets.
 */
export function visibleGpus(gpus: readonly NvidiaGpu[], list: string | undefined): readonly NvidiaGpu[] {
  if (list === undefined) return gpus;
  const visible: NvidiaGpu[] = [];
  for (const entry of list.split(",").map((text) => text.trim())) {
    const gpu = entry.startsWith("MIG-") ? sliceOf(entry, gpus) : oneNamed(entry, gpus);
    if (!gpu) break;
    visible.push(gpu);
  }
  return visible;
}

/** A slice of a card (MIG), identified by its UUID alone: its card is known where there is only one. */
function sliceOf(uuid: string, gpus: readonly NvidiaGpu[]): NvidiaGpu | undefined {
  const [card] = gpus;
  if (!card) return undefined;
  const alone = gpus.length === 1;
  return {
    index: alone ? card.index : -1,
    uuid,
    name: alone ? `a MIG slice of ${card.name}` : "a MIG slice",
    capability: alone ? card.capability : undefined,
    memoryBytes: undefined,
  };
}

/** A card by its index, its UUID, or an unambiguous beginning of the UUID ("GPU-" may be left out). */
function oneNamed(name: string, gpus: readonly NvidiaGpu[]): NvidiaGpu | undefined {
  if (/^\d+$/.test(name)) return gpus.find(({ index }) => index === Number(name));
  if (name === "") return undefined;
  const wanted = name.toLowerCase();
  const begun = gpus.filter(({ uuid }) => {
    const whole = uuid?.toLowerCase();
    return whole?.startsWith(wanted) || whole?.replace(/^gpu-/, "").startsWith(wanted);
  });
  return begun.length === 1 ? begun[0] : undefined;
}

/**
 * The card to use: the first visible one when none is named.
 *
 * @param option that names it, for the message
 * @throws UsageError when `device` names none that is visible
 */
export function chooseCard(
  gpus: readonly NvidiaGpu[],
  visible: readonly NvidiaGpu[],
  device: string | undefined,
  option = "--device",
): NvidiaGpu | undefined {
  if (device === undefined) return visible[0];
  const found = device.startsWith("MIG-") ? sliceOf(device, visible) : oneNamed(device, visible);
  if (found) return found;
  const hidden = oneNamed(device, gpus);
  if (hidden) throw new UsageError(`${option} ${device}: CUDA_VISIBLE_DEVICES hides ${describe(hidden)}`);
  const there = visible.map(describe).join(", ");
  throw new UsageError(
    `${option} ${device} names no NVIDIA GPU, or more than one; ${there ? `there are ${there}` : "CUDA_VISIBLE_DEVICES hides them all"}`,
  );
}

/** For people: "0 NVIDIA A100-SXM4-40GB (GPU-5a2e1c77)". */
export function describe({ index, name, uuid }: NvidiaGpu): string {
  const short = uuid?.startsWith("GPU-") ? uuid.slice(0, 12) : uuid;
  return `${index < 0 ? "" : `${index} `}${name}${short ? ` (${short})` : ""}`;
}
