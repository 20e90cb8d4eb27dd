/** Loads a user's TypeScript or JavaScript file, in which hone can be imported wherever the file lies. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { createJiti } from "jiti";
import { packageRoot } from "./paths.js";

/** The package's name, and its earlier name, which older task files import. */
const NAMES = ["@hone-rl/hone", "hone"];

/** @throws what the file throws */
export async function importUserFile(file: string): Promise<unknown> {
  // The user's file gets the modules that are already loaded, so that both sides share one copy.
  const hone: unknown = await import(pathToFileURL(join(packageRoot, "dist/src/index.js")).href);
  const virtualModules = Object.fromEntries(NAMES.map((name) => [name, hone]));
  return createJiti(import.meta.url, { virtualModules }).import(file, { default: true });
}
