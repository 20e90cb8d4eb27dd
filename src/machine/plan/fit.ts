/** Makes a run fit the machine before anything is loaded, or names options that would. */
import { HoneError } from "../../core/util/errors.js";
import { concurrencyOf, learnsOnCuda, type PlanInput } from "./input.js";
import type { MachineMemory } from "./machine.js";
import { engineHolds, fullest, planMemory, sumOf } from "./memory.js";
import { fits, type Room, waysToFit } from "./remedies.js";

/** Settings that the user did not give and the plan may therefore change. */
export interface Free {
  readonly concurrency: boolean;
  readonly gradientCheckpointing: boolean;
  readonly microBatchTokens: boolean;
}

export interface Machine {
  readonly host: MachineMemory;
  readonly gpu: (MachineMemory & { readonly name: string }) | null;
  /** The learner's, where it has one of its own. */
  readonly learnerGpu?: (MachineMemory & { readonly name: string }) | null;
  /** The engine is there already: what it holds is not free any more, and not changed. */
  readonly loaded?: boolean;
}

/** Below this number of concurrent rollouts other changes gain more. */
const FEWEST = 4;

export const gigabytes = (bytes: number) => `${(bytes / 1e9).toFixed(1)} GB`;

/** Makes free changes until the run fits; all of them where it still does not, since they help. */
export function withFreeChanges(wanted: PlanInput, free: Omit<Free, "microBatchTokens">, room: Room): PlanInput {
  let input = wanted;
  // A server that is started again at each step takes minutes; all else costs more.
  if (!fits(input, room) && input.served?.own?.rests === "stays" && !input.awake) {
    input = { ...input, served: { own: { ...input.served.own, rests: "stops" } } };
  }
  // Each lane of an engine has buffers of its own.
  if (!fits(input, room) && input.lanes > 1) input = { ...input, lanes: 1 };
  if (!fits(input, room) && free.gradientCheckpointing) input = { ...input, gradientCheckpointing: true };
  while (!fits(input, room) && free.concurrency && input.concurrency > FEWEST) {
    input = { ...input, ...concurrencyOf(input, Math.ceil(input.concurrency / 2)) };
  }
  // Where fewer concurrent rollouts suffice, activations need not be computed twice.
  const without = { ...input, gradientCheckpointing: wanted.gradientCheckpointing };
  return fits(without, room) ? without : input;
}

/** All that may be changed beside an engine that is loaded. */
const withCheckpointing = (wanted: PlanInput, free: Pick<Free, "gradientCheckpointing">, room: Room): PlanInput =>
  free.gradientCheckpointing && !fits(wanted, room) ? { ...wanted, gradientCheckpointing: true } : wanted;

/**
 * Settings that fit into the available memory, changing only free ones.
 * @throws HoneError when they do not fit into the total memory, with flags that would
 */
export function fitToMachine(wanted: PlanInput, free: Free, machine: Machine, log: (text: string) => void): PlanInput {
  const { host, gpu, learnerGpu, loaded = false } = machine;
  const held = loaded ? engineHolds(wanted) : { host: 0, gpu: 0 };
  const available: Room = {
    host: host.available + held.host,
    gpu: (gpu?.available ?? 0) + held.gpu,
    learnerGpu: learnerGpu?.available ?? 0,
  };
  const total: Room = { host: host.total, gpu: gpu?.total ?? 0, learnerGpu: learnerGpu?.total ?? 0 };
  const input = loaded ? withCheckpointing(wanted, free, available) : withFreeChanges(wanted, free, available);
  if (fits(input, available)) return free.microBatchTokens ? withWideRows(input, available) : input;

  const flags = waysToFit(input, available) ?? waysToFit(input, total);
  const remedy = flags?.length ? `these make it fit: ${flags.join(" ")}` : "take a smaller model";
  const plan = planMemory(input);
  // The place with the largest shortage.
  const places = [
    { where: "this machine", memory: host, plan: plan.host },
    ...(gpu && plan.gpu ? [{ where: gpu.name, memory: gpu, plan: plan.gpu }] : []),
    ...(learnerGpu && plan.learnerGpu
      ? [{ where: `the learner's ${learnerGpu.name}`, memory: learnerGpu, plan: plan.learnerGpu }]
      : []),
  ].sort((a, b) => b.plan.peak / b.memory.available - a.plan.peak / a.memory.available);
  const { where, memory, plan: short } = places[0] as (typeof places)[number];
  const rows = fullest(short).map(({ name, bytes }) => `${name} ${gigabytes(bytes)}`);
  const need = `about ${gigabytes(sumOf(fullest(short)))} are needed at once (${rows.join(", ")})`;
  if (!fits(input, total)) {
    throw new HoneError(`this run does not fit: ${need}, ${where} has ${gigabytes(memory.total)}; ${remedy}`);
  }
  const text = `${gigabytes(memory.available)} of ${gigabytes(memory.total)} are free`;
  log(`memory may run out${gpu ? ` on ${where}` : ""}: ${need}, ${text}; ${remedy}`);
  return input;
}

/** Longer rows gain nothing more. */
export const WIDEST_ROW = 65_536;
/** Share of the free memory: CUDA's own need is assumed (learner-memory.ts), and a run must not fail for longer rows. */
const SHARE = 0.8;

/**
 * Makes the learner's rows as long as fit easily: short rows leave most of a card idle, as launching kernels then takes longer than
 * running them. On CUDA only: a CPU gains nothing by it. Not run on CUDA.
 */
function withWideRows(input: PlanInput, room: Room): PlanInput {
  if (!learnsOnCuda(input)) return input;
  let wide = input;
  const less: Room = { host: room.host, gpu: SHARE * room.gpu, learnerGpu: SHARE * (room.learnerGpu ?? 0) };
  for (;;) {
    const next = { ...wide, microBatchTokens: 2 * wide.microBatchTokens };
    if (next.microBatchTokens > WIDEST_ROW || !fits(next, less)) return wide;
    wide = next;
  }
}
