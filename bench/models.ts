/**
 * The models of tests and benchmarks (test/models/make.py), created when first needed and kept in the user's cache, one folder
 * for each state of what makes them: checkouts share it, and a fresh one makes nothing again.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HoneError } from "../src/core/util/errors.js";
import { withLock } from "../src/core/util/lock.js";
import { cacheHome, packageRoot } from "../src/core/util/paths.js";
import { lockFile } from "../src/engine/device/environment.js";
import { ensurePython } from "../src/machine/python/python.js";

/**
 * tiny: qwen2-tiny, qwen3-tiny, llama-tiny, mistral-tiny, smollm3-tiny, granite-tiny, olmo2-tiny, gemma3-tiny, phi3-tiny, lfm2-tiny and yarn-tiny. published: qwen2.5-small and its
 * like. 0.5b: qwen2-0.5b-shape. wide: tiny-wide. card: card-0.5b-bf16 and its like, without weights.
 */
export type ModelSet = "tiny" | "published" | "0.5b" | "wide" | "card";
export const modelSets: readonly ModelSet[] = ["tiny", "published", "0.5b", "wide", "card"];

const recipe = join(packageRoot, "test", "models");

/** What makes them: the scripts, hone's own model, Python's packages, and llama.cpp's converter, which comes with node-llama-cpp. */
function recipeHash(): string {
  const digest = createHash("sha256");
  for (const name of readdirSync(recipe).sort()) {
    if (name.endsWith(".py")) digest.update(readFileSync(join(recipe, name)));
  }
  digest.update(readFileSync(join(packageRoot, "models/tiny/tiny.gguf")));
  digest.update(readFileSync(lockFile()));
  const { dependencies } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8"));
  digest.update(dependencies["node-llama-cpp"]);
  return digest.digest("hex").slice(0, 12);
}

/** A process with another cache, as on a null card, is told where they are. */
export const modelFolder = process.env.TEST_MODELS_FOLDER ?? join(cacheHome(), "hone", `test-models-${recipeHash()}`);

/** The path of a test model's file or folder: `modelPath("qwen2-tiny-f16.gguf")`. */
export const modelPath = (name: string) => join(modelFolder, name);

/** Creates the missing sets. `onProgress` gets a line for each. */
export async function ensureTestModels(sets: readonly ModelSet[], onProgress: (line: string) => void): Promise<void> {
  const stamp = (set: ModelSet) => join(modelFolder, `.${set}.made`);
  const missing = () => sets.filter((set) => !existsSync(stamp(set)));
  if (missing().length === 0) return;

  const python = await ensurePython({ extras: ["dev"], onProgress });
  mkdirSync(modelFolder, { recursive: true });
  const waiting = () => onProgress("waiting for another process that makes the test models");
  await withLock(join(modelFolder, ".lock"), waiting, async () => {
    for (const set of missing()) {
      onProgress(`making the test models "${set}" in ${modelFolder}`);
      const source = output(process.execPath, [join(packageRoot, "scripts", "llama-source.mjs")]).trim();
      output(python, [join(recipe, "make.py"), "--llama", source, "--out", modelFolder, set]);
      writeFileSync(stamp(set), "");
    }
  });
}

/** A program's output; an error with its last lines if it fails. */
function output(program: string, args: readonly string[]): string {
  const done = spawnSync(program, args, { encoding: "utf8", maxBuffer: 2 ** 26 });
  if (done.status === 0) return done.stdout;
  const said = done.error?.message ?? done.stderr.trim().split("\n").slice(-5).join("\n");
  throw new HoneError(`the test models could not be made: ${args[0]} failed:\n${said}`);
}
