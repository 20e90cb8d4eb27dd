/** Checks of the machine: Node, memory, disk. */
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { aboutPackage } from "../../core/util/paths.js";
import { usableCores } from "../../engine/threads.js";
import { gigabytes } from "../../machine/plan/fit.js";
import { freeBytes, mainMemory } from "../../machine/plan/machine.js";
import { type Check, note, ok, wrong } from "./check.js";

/** With fewer free bytes, a run's checkpoints may fill the disk. */
const DISK = 2e9;

/** The oldest Node that still gets fixes. */
const SUPPORTED_NODE = "22";

/** Whether a version is at least the required one; both as "20.19" or "v20.20.2". */
export const atLeast = (version: string, wanted: string) =>
  new Intl.Collator("en", { numeric: true }).compare(version.replace(/^v/, ""), wanted) >= 0;

export function checkNode(version = process.version): Check {
  const about = aboutPackage();
  const wanted = about.engines.node.replace(/[^\d.]/g, "");
  const found = `Node ${version}, hone ${about.version}, ${process.platform} ${process.arch}`;
  const facts = { node: version, wanted, hone: about.version, platform: process.platform, arch: process.arch };
  if (!atLeast(version, wanted)) return wrong("node", found, `install Node ${wanted} or newer`, facts);
  if (atLeast(version, SUPPORTED_NODE)) return ok("node", found, facts);
  return note("node", found, `it works, but gets no more security fixes; Node ${SUPPORTED_NODE} and newer do`, facts);
}

export function checkMemory(): Check {
  const { total, available } = mainMemory();
  const facts = { total, available, cores: usableCores() };
  return ok("memory", `${gigabytes(available)} of ${gigabytes(total)} free, ${facts.cores} CPU cores`, facts);
}

/** The nearest existing ancestor: the home folder is created when something is first written. */
function existingFolder(folder: string): string {
  let there = folder;
  while (!existsSync(there) && dirname(there) !== there) there = dirname(there);
  return there;
}

export function checkDisk(home: string): Check {
  const free = freeBytes(existingFolder(home));
  const found = `${gigabytes(free)} free for runs in ${home}`;
  const facts = { home, free };
  if (free >= DISK) return ok("disk", found, facts);
  return note(
    "disk",
    found,
    `free some, or give another folder with --home: checkpoints need ${gigabytes(DISK)} or so`,
    facts,
  );
}
