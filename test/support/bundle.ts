/** Files of llama.cpp (vocabularies, chat templates, converters), from the git bundle inside node-llama-cpp. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";

/** The folder of llama.cpp's source, unpacked once. */
export function llamaCppFiles(): string {
  const script = join(packageRoot, "scripts/llama-source.mjs");
  return execFileSync(process.execPath, [script], { encoding: "utf8" }).trim();
}
