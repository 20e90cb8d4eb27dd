// Programs that packaging starts, and where it works.
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** What is made: the tarballs and their sums. */
export const out = join(root, "build/packages");

/** Where it is made. */
export const work = join(root, "build/packaging");

export class PackageError extends Error {}

/** @returns stdout. @throws PackageError with the last lines of a program that fails */
export function run(program, args, options = {}) {
  const result = spawnSync(program, args, { encoding: "utf8", maxBuffer: 1 << 28, ...options });
  if (result.status === 0) return result.stdout;
  const said = `${result.stdout ?? ""}\n${result.stderr ?? ""}`.trim().split("\n");
  const errors = said.filter((line) => /\berror\b/i.test(line)).slice(0, 5);
  const shown = result.error?.message ?? [...errors, ...said.slice(-15)].join("\n");
  throw new PackageError(`${[program, ...args].join(" ")} failed:\n${shown}`);
}

/** npm, which is a script on Windows. The user's settings for node-gyp are not taken over. */
export function npm(args, cwd) {
  const { npm_config_nodedir: _, ...env } = process.env;
  return run("npm", args, { cwd, env, shell: process.platform === "win32" });
}

/** Packs a folder as npm publishes it. @returns the tarball's path */
export function packFolder(folder, into) {
  const [packed] = JSON.parse(npm(["pack", "--ignore-scripts", "--json", "--pack-destination", into], folder));
  return join(into, packed.filename);
}
