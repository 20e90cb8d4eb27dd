/** Makes a run fit the machine before anything is loaded, or says what would. */
import { HoneError } from "../util/index.js";
import type { MachineMemory } from "./machine.js";
import { type Plan, type PlanInput, planMemory, planRows, waysToFit } from "./memory.js";

/** What nobody chose, so that the plan may. */
export interface Free {
  readonly concurrency: boolean;
  readonly gradientCheckpointing: boolean;
}

/** Rollouts at once below which more is gained by other means. */
const FEWEST = 4;

export const gigabytes = (bytes: number) => `${(bytes / 1e9).toFixed(1)} GB`;

function rowsText(plan: Plan): string {
  return planRows(plan)
    .map(({ name, bytes }) => `${name} ${gigabytes(bytes)}`)
    .join(", ");
}

/**
 * Settings that fit into what is available, where only free ones are changed.
 * @param where "this machine", or the GPU's name
 * @throws HoneError when they do not fit into all there is, with flags that would
 */
export function fitToMachine(
  wanted: PlanInput,
  free: Free,
  memory: MachineMemory,
  where: string,
  say: (text: string) => void,
): PlanInput {
  let input = wanted;
  const tooMuch = () => planMemory(input).peak > memory.available;
  if (tooMuch() && free.gradientCheckpointing) input = { ...input, gradientCheckpointing: true };
  while (tooMuch() && free.concurrency && input.concurrency > FEWEST) {
    input = { ...input, concurrency: Math.ceil(input.concurrency / 2) };
  }
  const plan = planMemory(input);
  if (plan.peak <= memory.available) return input;

  const flags = waysToFit(input, memory.available) ?? waysToFit(input, memory.total);
  const remedy = flags ? `these make it fit: ${flags.join(" ")}` : "take a smaller model";
  const need = `about ${gigabytes(plan.peak)} are needed at once (${rowsText(plan)})`;
  if (plan.peak > memory.total) {
    throw new HoneError(`this run does not fit: ${need}, ${where} has ${gigabytes(memory.total)}; ${remedy}`);
  }
  say(`memory may run out: ${need}, ${gigabytes(memory.available)} of ${gigabytes(memory.total)} are free; ${remedy}`);
  return input;
}
