/**
 * Number of threads for llama.cpp. Decoding with more threads than free cores collapses (its threads wait for each
 * other by spinning; in our measurements 62 tokens/s became 4), so it never exceeds the cores this process may use;
 * governor.ts lowers it while other programs use some of them. Lanes of one thread each (contexts.ts) wait for no other thread.
 */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

/** Number of cores in the container's CPU quota (cgroup v2, then v1); Infinity without one. */
function cgroupCores(root = "/sys/fs/cgroup"): number {
  const read = (file: string): string => {
    try {
      return readFileSync(`${root}/${file}`, "utf8").trim();
    } catch {
      return ""; // no such control group: no quota
    }
  };
  const [quota, period] = read("cpu.max").split(" ").map(Number);
  const limit =
    quota && period ? quota / period : Number(read("cpu/cpu.cfs_quota_us")) / Number(read("cpu/cpu.cfs_period_us"));
  return Number.isFinite(limit) && limit > 0 ? limit : Number.POSITIVE_INFINITY;
}

/** Cores this process may use at once, at least 1. */
export function usableCores(): number {
  return Math.max(1, Math.floor(Math.min(availableParallelism(), cgroupCores())));
}

/** Threads of an engine on a CPU, and of the learner. On larger machines one core is left to JavaScript. */
export function decodeThreads(wanted: number | undefined): number {
  const cores = usableCores();
  if (wanted !== undefined) return Math.min(wanted, cores);
  return cores > 4 ? cores - 1 : cores;
}
