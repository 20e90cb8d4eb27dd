/** Memory and disk that this process may use, in bytes. */
import { mkdirSync, readFileSync, statfsSync } from "node:fs";
import { freemem, totalmem } from "node:os";
import { HoneError } from "../../core/util/errors.js";

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

/** "512 B", "3.2 MB", "1.0 GB". */
export function sizeText(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 99.5 ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`;
}

/**
 * @param folder which is made
 * @param what needs the room
 * @param remedy beside freeing some
 * @throws HoneError when its disk has less free
 */
export function needDisk(folder: string, bytes: number, what: string, remedy: string, freeIn = freeBytes): void {
  mkdirSync(folder, { recursive: true });
  const free = freeIn(folder);
  if (free >= bytes) return;
  throw new HoneError(
    `${what} needs ${sizeText(bytes)} of free disk in ${folder}, which has ${sizeText(free)}; free some, or ${remedy}`,
  );
}

/** Free bytes of the disk that contains a folder. */
export function freeBytes(folder: string): number {
  const disk = statfsSync(folder);
  return disk.bavail * disk.bsize;
}
