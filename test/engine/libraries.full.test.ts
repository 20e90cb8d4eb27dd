/** The real libraries of llama.cpp for GPUs, from npm's registry. */
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { gpuLibraries, installedBackends, thisMachine } from "../../src/engine/missing.js";
import { lackOf } from "../support/libraries.js";

const lack =
  (await lackOf("cuda", "vulkan")) ||
  (spawnSync("readelf", ["-v"]).status === 0 ? "" : " (skipped: there is no readelf)");

describe("the libraries that are fetched", () => {
  it.skipIf(lack !== "").each(["cuda", "vulkan"] as const)(`are linked to what hone looks for: %s${lack}`, (gpu) => {
    expect(installedBackends()).toContain(gpu);
    const bins = thisMachine.bins(`@node-llama-cpp/linux-x64-${gpu}`) as string;
    const file = join(bins, readdirSync(bins)[0] as string, `libggml-${gpu}.so`);
    const dynamic = execFileSync("readelf", ["-d", file], { encoding: "utf8" });
    const needed = [...dynamic.matchAll(/\(NEEDED\).*\[(lib(?:cu|vulkan)\S*)\]/g)].map(([, name]) => name);
    expect(needed.sort()).toEqual(gpuLibraries[gpu].flatMap(({ names }) => names).sort());
  });
});
