/** llama.cpp's libraries for GPUs, as hone fetches them: once for a user. */

import { messageOf } from "../../src/core/util/errors.js";
import { fetchLibraries } from "../../src/engine/libraries.js";

/** For a test's name: why llama.cpp's libraries are not there, "" where they are. */
export async function lackOf(...gpus: readonly ("cuda" | "cuda-ext" | "vulkan")[]): Promise<string> {
  if (process.platform !== "linux" || process.arch !== "x64")
    return " (skipped: the libraries are for Linux x64 alone)";
  try {
    await fetchLibraries(
      gpus.map((gpu) => `@node-llama-cpp/linux-x64-${gpu}`),
      { onProgress: (line) => console.error(line) },
    );
    return "";
  } catch (error) {
    return ` (skipped: ${messageOf(error)})`;
  }
}
