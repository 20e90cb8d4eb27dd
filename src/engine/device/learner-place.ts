/** The learner's device, which may be another card than the engine's (`--learner-device`). */
import { HoneError, UsageError } from "../../core/util/errors.js";
import { learnerDevice } from "./build.js";
import { cudaFor } from "./cuda.js";
import { idOf, takenCards } from "./device.js";
import type { NvidiaGpu } from "./nvidia.js";
import { chooseCard, describe } from "./visible.js";

/** Where the learner computes. */
export interface LearnerPlace {
  readonly device: "cuda" | "cpu";
  /** Its own card, which the engine does not use. */
  readonly card?: NvidiaGpu;
  /** That card as CUDA_VISIBLE_DEVICES, in place of this process's. */
  readonly cards?: string;
  /** The engine is on a card, and the learner is not on that one. */
  readonly apart: boolean;
  /** For the user. */
  readonly note?: string;
}

/**
 * Where the learner computes beside an engine: on the engine's device, or where `--learner-device` says.
 *
 * @param named a card, as for --device, or "cpu"
 * @throws UsageError when it names no visible card, or there is none for the engine
 * @throws HoneError when no CUDA runs on both cards
 */
export function learnerPlace(named: string | undefined, backend: "cuda" | "vulkan" | "metal" | false): LearnerPlace {
  const shared = learnerDevice(backend);
  if (named === undefined) return { ...shared, apart: false };
  if (named === "cpu") return { device: "cpu", apart: backend === "cuda" };
  const taken = takenCards();
  if (backend !== "cuda" || !taken) {
    throw new UsageError(
      `--learner-device ${named}: names the learner's card beside an engine on an NVIDIA GPU, and here the engine computes on ${backend === false ? "the CPU" : backend}.\nLeave it out, or give --gpu cuda`,
    );
  }
  const { card: engines, visible, nvidia } = taken;
  const card = chooseCard(nvidia.gpus, visible, named, "--learner-device") as NvidiaGpu;
  if (idOf(card) === idOf(engines)) return { ...shared, apart: false };
  const [major] = cudaFor(engines, nvidia.driver).majors;
  if (major !== undefined && !cudaFor(card, nvidia.driver).majors.includes(major)) {
    throw new HoneError(
      `--learner-device ${named}: engine and learner load one CUDA, and ${describe(card)} does not run CUDA ${major}, which ${describe(engines)} takes.\nExchange --device and --learner-device, or give --learner-device cpu`,
    );
  }
  return { device: "cuda", card, cards: idOf(card), apart: true };
}
