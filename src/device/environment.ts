/** Folder of the learner's Python environment, which also has CUDA's libraries for the engine. */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { cacheHome, isInstalled, packageRoot } from "../util/index.js";

/** In hone's folder, in an unpacked copy: the learner's packages as files. */
export const WHEELS_FOLDER = "wheels";

/**
 * In a checkout, `.venv`. For a package of a project, a folder of the user's cache that is named by the hash of the
 * requirements: `npm ci` removes node_modules, and projects with the same requirements share the environment. An unpacked
 * copy (`hone pack`) keeps its environment in itself, as all its parts.
 *
 * @param root hone's folder
 */
export function environmentFolder(root = packageRoot, env: NodeJS.ProcessEnv = process.env): string {
  const packed = existsSync(join(root, WHEELS_FOLDER));
  if (packed || !isInstalled({ root, script: undefined })) return join(root, ".venv");
  const requirements = readFileSync(join(root, "native", "learner", "requirements.txt"));
  const hash = createHash("sha256").update(requirements).digest("hex").slice(0, 12);
  return join(cacheHome(env), "hone", `python-${hash}`);
}
