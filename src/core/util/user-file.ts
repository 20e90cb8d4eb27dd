/** Loads a user's TypeScript or JavaScript file, in which hone can be imported wherever the file lies. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { createJiti } from "jiti";
import { packageRoot } from "./paths.js";

/** The package's name, and its earlier name, which older task files import. */
const NAMES = ["@hone-rl/hone", "hone"];

/**
 * The default export of a TypeScript or JavaScript file, or the file's exports where it has none. Nothing compiled is kept
 * on the disk: jiti's cache is a folder that all users of the machine share, and what others put there would be run.
 *
 * @param modules what the file may import by these names
 * @throws what the file throws
 */
export async function importScript(file: string, modules: Record<string, unknown> = {}): Promise<unknown> {
  const jiti = createJiti(import.meta.url, { virtualModules: modules, fsCache: false });
  return await jiti.import(file, { default: true });
}

/** @throws what the file throws */
export async function importUserFile(file: string): Promise<unknown> {
  // The user's file gets the modules that are already loaded, so that both sides share one copy.
  const hone: unknown = await import(pathToFileURL(join(packageRoot, "dist/src/index.js")).href);
  return await importScript(file, Object.fromEntries(NAMES.map((name) => [name, hone])));
}
