/** What a user reads who asks for a GPU that is not there. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getLlamaGpuTypes } from "node-llama-cpp";
import { afterAll, describe, expect, it } from "vitest";
import {
  gpuLibraries,
  type MachineLook,
  noSuchGpu,
  thisMachine,
  whyNoCpu,
  whyNoGpu,
} from "../../src/engine/missing.js";
import { packageRoot } from "../../src/util/paths.js";

const folder = mkdtempSync(join(tmpdir(), "hone-gpu-"));
afterAll(() => rmSync(folder, { recursive: true }));

function machine(change: Partial<MachineLook>): MachineLook {
  return { platform: "linux", arch: "x64", installed: () => true, finds: () => true, ...change };
}
const goOn = "; use --gpu auto, which takes the best there is, or --gpu off for the CPU";

describe("a GPU's backend that cannot be loaded", () => {
  it.each([
    ["no driver", { finds: (name: string) => name !== "libcuda.so.1" }, "libcuda.so.1 not found (NVIDIA's driver)"],
    [
      "no CUDA runtime",
      { finds: (name: string) => name === "libcuda.so.1" },
      "libcudart.so.13, libcublas.so.13 not found (CUDA 13's runtime libraries)",
    ],
    [
      "no build",
      { arch: "arm64", installed: () => false },
      "no build of it for linux arm64 is installed (looked for @node-llama-cpp/linux-arm64-cuda)",
    ],
    [
      "nothing that hone knows of",
      {},
      "nothing that it needs is known to be missing; `npx node-llama-cpp inspect gpu` tells more",
    ],
  ])("names what is missing, and how to go on: %s", (_, change, reason) => {
    expect(whyNoGpu("cuda", machine(change))).toBe(
      `--gpu cuda: llama.cpp's CUDA backend cannot be loaded: ${reason}${goOn}`,
    );
  });

  it("names all that is missing at once, and other GPUs' libraries for other GPUs", () => {
    const bare = machine({ finds: () => false, installed: () => false });
    expect(whyNoGpu("cuda", bare)).toMatch(/linux-x64-cuda\); libcuda\.so\.1 not .*; libcudart\.so\.13, libcublas/);
    expect(whyNoGpu("vulkan", bare)).toMatch(/linux-x64-vulkan\); libvulkan\.so\.1 not found \(the Vulkan loader\)/);
    expect(whyNoGpu("metal", machine({ platform: "darwin", arch: "arm64", installed: () => false }))).toMatch(
      /Metal backend cannot be loaded: no build .*\(looked for @node-llama-cpp\/mac-arm64-metal\)/,
    );
    expect(noSuchGpu("metal", bare)).toBe(`--gpu metal: llama.cpp has no Metal backend on linux x64${goOn}`);
    expect(whyNoCpu(machine({ arch: "ppc64", installed: () => false }))).toMatch(
      /^no llama\.cpp for linux ppc64 is installed \(looked for @node-llama-cpp\/linux-ppc64\): run `yarn install/,
    );
  });

  const linux = process.platform === "linux";
  it.skipIf(!linux)(`asks the machine itself${linux ? "" : " (skipped: the libraries are Linux's)"}`, () => {
    expect(thisMachine.finds("libc.so.6")).toBe(true);
    expect(thisMachine.finds("libnothing-of-that-name.so.1")).toBe(false);
    expect(thisMachine.installed(`@node-llama-cpp/linux-${process.arch}`)).toBe(true);
    expect(thisMachine.installed("@node-llama-cpp/linux-x64-none")).toBe(false);
  });

  const readelf = linux && process.arch === "x64" && spawnSync("readelf", ["-v"]).status === 0;
  const lack = readelf ? "" : " (skipped: it takes readelf on Linux x64)";
  it.skipIf(!readelf).each(["cuda", "vulkan"] as const)(
    `looks for what the installed backend is linked to: %s${lack}`,
    (gpu) => {
      const bins = join(packageRoot, `node_modules/@node-llama-cpp/linux-x64-${gpu}/bins`);
      expect(existsSync(bins)).toBe(true);
      const file = join(bins, readdirSync(bins)[0] as string, `libggml-${gpu}.so`);
      const dynamic = execFileSync("readelf", ["-d", file], { encoding: "utf8" });
      const needed = [...dynamic.matchAll(/\(NEEDED\).*\[(lib(?:cu|vulkan)\S*)\]/g)].map(([, name]) => name);
      expect(needed.sort()).toEqual(gpuLibraries[gpu].flatMap(({ names }) => names).sort());
    },
  );
});

describe("yarn rollout --gpu", async () => {
  const there = await getLlamaGpuTypes("supported");
  const asked = (["cuda", "vulkan", "metal"] as const).filter((gpu) => !there.includes(gpu));

  it.each(asked)("%s on a machine without it ends with one line and exit code 1", (gpu) => {
    const task = join(packageRoot, "examples/arithmetic.ts");
    const args = ["rollout", "--model", "tiny", "--task", task, "--n", "1", "--gpu", gpu];
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(packageRoot, "dist/src/cli.js"), ...args], {
      cwd: folder,
      encoding: "utf8",
    });
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
    expect(stderr).toMatch(new RegExp(`^hone: --gpu ${gpu}: llama\\.cpp.* use --gpu auto.* or --gpu off`));
    expect(stderr).not.toMatch(/Error|^ {4}at /m);
  });
});
