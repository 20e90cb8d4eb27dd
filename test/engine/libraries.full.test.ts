/** The real libraries of llama.cpp for GPUs, from npm's registry. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { librariesFolder } from "../../src/engine/libraries.js";
import { gpuLibraries, installedBackends, thisMachine } from "../../src/engine/missing.js";
import { lackOf } from "../support/libraries.js";

const lacking = await lackOf("cuda", "cuda-ext", "vulkan");
const lack = lacking || (spawnSync("readelf", ["-v"]).status === 0 ? "" : " (skipped: there is no readelf)");

describe("the libraries that are fetched", () => {
  it.skipIf(lack !== "").each(["cuda", "vulkan"] as const)(`are linked to what hone looks for: %s${lack}`, (gpu) => {
    expect(installedBackends()).toContain(gpu);
    const bins = thisMachine.bins(`@node-llama-cpp/linux-x64-${gpu}`) as string;
    const file = join(bins, readdirSync(bins)[0] as string, `libggml-${gpu}.so`);
    const dynamic = execFileSync("readelf", ["-d", file], { encoding: "utf8" });
    const needed = [...dynamic.matchAll(/\(NEEDED\).*\[(lib(?:cu|vulkan)\S*)\]/g)].map(([, name]) => name);
    expect(needed.sort()).toEqual(gpuLibraries[gpu].flatMap(({ names }) => names).sort());
  });

  it
    .skipIf(lacking !== "")
    .each([
      "linux-x64-cuda/bins/linux-x64-cuda/libggml-cuda.so",
      "linux-x64-cuda/bins/linux-x64-cuda/libggml-base.so",
      "linux-x64-cuda-ext/bins/linux-x64-cuda/fallback/libggml-cuda.so",
      "linux-x64-vulkan/bins/linux-x64-vulkan/libggml-vulkan.so",
    ])(`have %s${lacking}`, (file) => {
    expect(existsSync(join(librariesFolder(), "@node-llama-cpp", file))).toBe(true);
  });
});
