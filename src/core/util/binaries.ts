/**
 * The compiled files that hone loads. Each is prebuilt in the package of its platform (`@hone-rl/linux-x64`), or was compiled
 * on this machine when hone was installed (`scripts/build-addon.mjs`), which happens only where no prebuilt one loads.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { HoneError } from "./errors.js";
import { aboutPackage, packageRoot } from "./paths.js";
import { reinstall } from "./program.js";

const require = createRequire(import.meta.url);

export interface Places {
  /** Hone's own folder. */
  readonly root: string;
  /** Folder of a package by its name; undefined where it is not installed. */
  folderOf(name: string): string | undefined;
}

const installed: Places = {
  root: packageRoot,
  folderOf(name) {
    try {
      return dirname(require.resolve(`${name}/package.json`));
    } catch {
      // Not installed: the package is for another platform, or this is a checkout.
      return undefined;
    }
  },
};

/** The package of prebuilt files for this kind of machine. */
export const platformPackage = `@hone-rl/${process.platform}-${process.arch}`;

/** Where a compiled file may lie, the first that exists being taken. Files of another version of hone are none. */
function candidates(name: string, { root, folderOf }: Places): string[] {
  const compiled = join(root, "build/Release", name);
  const platform = folderOf(platformPackage);
  return platform !== undefined && aboutPackage(platform).version === aboutPackage(root).version
    ? [compiled, join(platform, name)]
    : [compiled];
}

/** The engine's addon, whether it exists or not. */
export function addonFile(places = installed): string {
  const files = candidates("hone_engine.node", places);
  return files.find((file) => existsSync(file)) ?? (files[0] as string);
}

/**
 * SQLite for better-sqlite3, which is compiled for one version of Node's binary interface each.
 *
 * @throws HoneError where there is none for this Node
 */
export function sqliteFile(places = installed): string {
  const files = candidates(`better_sqlite3-${process.versions.modules}.node`, places);
  const found = files.find((file) => existsSync(file));
  if (found !== undefined) return found;
  throw new HoneError(
    `there is no SQLite for Node ${process.versions.node} on ${process.platform} ${process.arch} (looked for ${files.join(" and ")}): run ${reinstall()}`,
  );
}
