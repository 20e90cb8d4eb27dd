/** Memory use of a card, as the driver reports it. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

const MIB = 2 ** 20;

/** Bytes in use on the first card; null without an NVIDIA driver. */
export function usedOnCard(): number | null {
  const asked = spawnSync("nvidia-smi", ["--query-gpu=memory.used", "--format=csv,noheader,nounits"], {
    encoding: "utf8",
  });
  const used = Number(asked.stdout?.split("\n")[0]);
  return asked.status === 0 && Number.isFinite(used) ? used * MIB : null;
}

/** Peak memory use of the card during some work. */
export async function peakOnCard<T>(work: () => Promise<T>): Promise<{ result: T; peak: number | null }> {
  let peak = usedOnCard();
  const timer = setInterval(() => {
    const used = usedOnCard();
    if (used !== null) peak = Math.max(peak ?? 0, used);
  }, 500);
  try {
    const result = await work();
    return { result, peak };
  } finally {
    clearInterval(timer);
  }
}

/** Processes whose environment has a variable with this value: all descendants of a program. */
export function processesWith(variable: string, value: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(`${variable}=${value}`);
      } catch {
        // It has ended, or is another user's.
        return false;
      }
    })
    .map(Number);
}
