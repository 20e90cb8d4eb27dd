/**
 * The learner's Python environments, which also have CUDA's libraries for the engine. There is one for each user, build of
 * PyTorch and set of package versions: all projects and checkouts share it. src/machine/python makes them; what is here looks
 * at those that there are, and runs no program.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cacheHome, packageRoot } from "../../core/util/paths.js";

/** In hone's folder, in an unpacked copy: the learner's packages as files. */
export const WHEELS_FOLDER = "wheels";

/** Builds of PyTorch. One for a GPU computes on the CPU as well. */
export const BUILDS = ["cuda13", "cuda12", "cpu"] as const;
export type Build = (typeof BUILDS)[number];

export const buildTitles: Readonly<Record<Build, string>> = { cpu: "the CPU", cuda12: "CUDA 12", cuda13: "CUDA 13" };

/** The versions of all Python packages. */
export const lockFile = (root = packageRoot) => join(root, "requirements.lock");

/**
 * A folder of the user's cache, named by the hash of the lock file; an unpacked copy (`hone pack`) keeps its environment in
 * itself, as all its parts.
 *
 * @param root hone's folder
 */
export function environmentFolder(build: Build, root = packageRoot, env: NodeJS.ProcessEnv = process.env): string {
  const hash = createHash("sha256")
    .update(readFileSync(lockFile(root)))
    .digest("hex")
    .slice(0, 12);
  const base = existsSync(join(root, WHEELS_FOLDER)) ? root : join(cacheHome(env), "hone");
  return join(base, `python-${hash}-${build}`);
}

export const interpreterIn = (folder: string) => join(folder, "bin", "python");

/** Written last: a folder without it is no environment yet. */
const stampFile = (folder: string) => join(folder, "hone.json");

/** The extras that an environment has beside the learner's packages; undefined where there is none. */
export function extrasIn(folder: string): readonly string[] | undefined {
  if (!existsSync(stampFile(folder)) || !existsSync(interpreterIn(folder))) return undefined;
  return (JSON.parse(readFileSync(stampFile(folder), "utf8")) as { extras: string[] }).extras;
}

export function writeStamp(folder: string, extras: readonly string[]): void {
  const aside = `${stampFile(folder)}.${process.pid}`;
  writeFileSync(aside, `${JSON.stringify({ extras })}\n`);
  renameSync(aside, stampFile(folder));
}

/** The environments that there are, of these builds and with these extras at least. */
export const madeEnvironments = (builds: readonly Build[] = BUILDS, extras: readonly string[] = []): string[] =>
  builds
    .map((build) => environmentFolder(build))
    .filter((folder) => {
      const there = extrasIn(folder);
      return there !== undefined && extras.every((extra) => there.includes(extra));
    });
