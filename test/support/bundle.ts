/** llama.cpp's own files (vocabularies, chat templates, converters), from the git bundle inside node-llama-cpp. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/util/paths.js";

/** The folder of a checkout of the bundle, made once. */
export function llamaCppFiles(): string {
  const folder = join(packageRoot, "build/llama.cpp");
  if (!existsSync(join(folder, "models"))) {
    const bundle = join(packageRoot, "node_modules/node-llama-cpp/llama/gitRelease.bundle");
    const aside = `${folder}.${process.pid}`;
    mkdirSync(join(packageRoot, "build"), { recursive: true });
    execFileSync("git", ["clone", "--quiet", bundle, aside], { stdio: ["ignore", "ignore", "pipe"] });
    // Another test file may have been faster.
    if (existsSync(folder)) rmSync(aside, { recursive: true });
    else renameSync(aside, folder);
  }
  return folder;
}
