// `yarn tiny-model [--base untaught|word-sums]`: makes the tiny model, or another base, anew, by the recipe in
// models/tiny/recipe. Other arguments are handed to it.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ensurePython } from "../dist/src/python-env/index.js";
import { UsageError } from "../dist/src/util/index.js";

// Modules of the recipe.
const BASES = { tiny: "recipe", untaught: "recipe.untaught", "word-sums": "recipe.word_sums" };

const root = fileURLToPath(new URL("..", import.meta.url));
try {
  const { values, tokens } = parseArgs({
    options: { base: { type: "string", default: "tiny" } },
    strict: false,
    tokens: true,
  });
  const recipe = BASES[values.base];
  if (!recipe) {
    throw new UsageError(`--base: there is no base ${values.base}; there are ${Object.keys(BASES).join(", ")}`);
  }
  const base = tokens.find(({ name }) => name === "base");
  const given = process.argv.slice(2);
  if (base) given.splice(base.index, base.inlineValue ? 1 : 2);
  const python = await ensurePython({ onProgress: console.error });
  const env = { ...process.env, PYTHONPATH: join(root, "models/tiny"), PYTHONUNBUFFERED: "1" };
  const { status } = spawnSync(python, ["-m", recipe, ...given], {
    cwd: root,
    env,
    stdio: "inherit",
  });
  process.exitCode = status ?? 1;
} catch (error) {
  console.error(`hone: ${error.message}`);
  process.exitCode = error.exitCode ?? 1;
}
