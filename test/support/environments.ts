/** The Python environments of whoever runs the tests, for tests with a home folder of their own. */
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { cacheHome } from "../../src/core/util/paths.js";

/** Makes them those of this home folder too: none is installed a second time. */
export function shareEnvironments(home: string): void {
  const own = join(cacheHome(), "hone");
  mkdirSync(own, { recursive: true });
  mkdirSync(join(home, ".cache"), { recursive: true });
  symlinkSync(own, join(home, ".cache/hone"));
}
