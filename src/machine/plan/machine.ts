/** Memory this process may use, in bytes. */
import { readFileSync } from "node:fs";
import { freemem, totalmem } from "node:os";

export interface MachineMemory {
  /** Total: the machine's memory, or the container's limit. */
  readonly total: number;
  /** Currently unused; caches of the system count as free. */
  readonly available: number;
}

/** Main memory; on Linux the memory available without swapping. */
export function mainMemory(meminfo = "/proc/meminfo"): MachineMemory {
  const limit = process.constrainedMemory();
  // Without a limit some systems report 0, others a number larger than any memory.
  const total = limit > 0 && limit < totalmem() ? limit : totalmem();
  let available = freemem();
  try {
    const kilobytes = Number(/^MemAvailable:\s+(\d+) kB$/m.exec(readFileSync(meminfo, "utf8"))?.[1]);
    if (Number.isFinite(kilobytes)) available = kilobytes * 1024;
  } catch {
    // Not Linux: uses the system's free memory.
  }
  return { total, available: Math.min(total, available) };
}
