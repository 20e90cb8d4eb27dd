// `yarn tiny-model`: makes the tiny model anew, by the recipe in models/tiny/recipe, which takes the arguments.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { UsageError } from "../dist/src/core/util/errors.js";
import { ensurePython } from "../dist/src/machine/python/python.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const given = process.argv.slice(2);
try {
  if (given.some((arg) => /^--base(=|$)/.test(arg))) {
    throw new UsageError("--base: there is one model; leave it out, and yarn tiny-model makes models/tiny anew");
  }
  const python = await ensurePython({ onProgress: console.error });
  const env = { ...process.env, PYTHONPATH: join(root, "models/tiny"), PYTHONUNBUFFERED: "1" };
  const { status } = spawnSync(python, ["-m", "recipe", ...given], { cwd: root, env, stdio: "inherit" });
  process.exitCode = status ?? 1;
} catch (error) {
  console.error(`hone: ${error.message}`);
  process.exitCode = error.exitCode ?? 1;
}
