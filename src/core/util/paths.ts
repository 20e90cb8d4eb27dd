/** Where hone itself lies on disk, whether it runs from `dist/` or, in tests, from `src/`. */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

function findPackageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return folder;
}

/** The folder of hone's package.json. */
export const packageRoot = findPackageRoot();

/** What package.json in a folder of hone's own packages says. */
export const aboutPackage = (folder = packageRoot) =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    readonly version: string;
    readonly engines: { readonly node: string };
    readonly dependencies: Readonly<Record<string, string>>;
  };

/** A leading "~" is the user's home. */
export const expandHome = (path: string) => (/^~(\/|$)/.test(path) ? join(homedir(), path.slice(1)) : path);

/** The user's folder for caches: XDG_CACHE_HOME, by default ~/.cache. */
export const cacheHome = (env: NodeJS.ProcessEnv = process.env) => expandHome(env.XDG_CACHE_HOME || "~/.cache");

/** Whether a project or a run can have this name, which becomes that of a folder. */
export const isFolderName = (name: string) => /^\w[\w.-]*$/.test(name);
