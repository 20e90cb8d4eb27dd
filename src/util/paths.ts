/** Where hone itself lies on disk, whether it runs from `dist/` or, in tests, from `src/`. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

function findPackageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return folder;
}

/** The folder of hone's package.json. */
export const packageRoot = findPackageRoot();
