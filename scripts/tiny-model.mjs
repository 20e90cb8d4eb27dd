// `yarn tiny-model`: makes the tiny model anew, by the recipe in models/tiny/recipe. Arguments are handed to it.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ensurePython } from "../dist/src/learn/index.js";

const root = fileURLToPath(new URL("..", import.meta.url));
try {
  const python = await ensurePython({ onProgress: console.error });
  const env = { ...process.env, PYTHONPATH: join(root, "models/tiny"), PYTHONUNBUFFERED: "1" };
  const { status } = spawnSync(python, ["-m", "recipe", ...process.argv.slice(2)], {
    cwd: root,
    env,
    stdio: "inherit",
  });
  process.exitCode = status ?? 1;
} catch (error) {
  console.error(`hone: ${error.message}`);
  process.exitCode = 1;
}
