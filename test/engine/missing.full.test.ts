/** What a user reads who asks for a GPU that is not there. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getLlamaGpuTypes } from "node-llama-cpp";
import { afterAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import {
  cudaBackend,
  lackingLibraries,
  type MachineLook,
  noSuchGpu,
  nvidiaBroken,
  thisMachine,
  unusedCard,
  whyNoCpu,
  whyNoGpu,
} from "../../src/engine/missing.js";
import { type Cards, listCards } from "../support/nvidia.js";

const folder = mkdtempSync(join(tmpdir(), "hone-gpu-"));
afterAll(() => rmSync(folder, { recursive: true }));

function machine(change: Partial<MachineLook>): MachineLook {
  return { platform: "linux", arch: "x64", bins: (name) => `/modules/${name}/bins`, finds: () => true, ...change };
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
      { arch: "arm64", bins: () => undefined },
      "no build of it for linux arm64 is installed (looked for @node-llama-cpp/linux-arm64-cuda)",
    ],
    [
      "nothing that hone knows of",
      {},
      "nothing that it needs is known to be missing; `npx --no -- node-llama-cpp inspect gpu` tells more",
    ],
  ])("names what is missing, and how to go on: %s", (_, change, reason) => {
    expect(whyNoGpu("cuda", machine(change))).toBe(
      `--gpu cuda: llama.cpp's CUDA backend cannot be loaded: ${reason}${goOn}`,
    );
  });

  it("names all that is missing at once, and other GPUs' libraries for other GPUs", () => {
    const bare = machine({ finds: () => false, bins: () => undefined });
    expect(whyNoGpu("cuda", bare)).toMatch(/loaded: libcuda\.so\.1 not .*; libcudart\.so\.13, libcublas/);
    expect(whyNoGpu("vulkan", bare)).toMatch(/loaded: libvulkan\.so\.1 not found \(the Vulkan loader\)/);
    expect(whyNoGpu("vulkan", machine({ bins: () => undefined }))).toMatch(
      /\(looked for @node-llama-cpp\/linux-x64-vulkan\); `.*doctor --install` fetches it/,
    );
    expect(whyNoGpu("metal", machine({ platform: "darwin", arch: "arm64", bins: () => undefined }))).toMatch(
      /Metal backend cannot be loaded: no build .*\(looked for @node-llama-cpp\/mac-arm64-metal\)/,
    );
    expect(noSuchGpu("metal", bare)).toBe(`--gpu metal: llama.cpp has no Metal backend on linux x64${goOn}`);
    expect(whyNoCpu(machine({ arch: "ppc64", bins: () => undefined }))).toMatch(
      /^no llama\.cpp for linux ppc64 is installed \(looked for @node-llama-cpp\/linux-ppc64\): run `yarn install/,
    );
  });

  const linux = process.platform === "linux";
  it.skipIf(!linux)(`asks the machine itself${linux ? "" : " (skipped: the libraries are Linux's)"}`, () => {
    expect(thisMachine.finds("libc.so.6")).toBe(true);
    expect(thisMachine.finds("libnothing-of-that-name.so.1")).toBe(false);
    expect(thisMachine.bins(`@node-llama-cpp/linux-${process.arch}`)).toMatch(/\/bins$/);
    expect(thisMachine.bins("@node-llama-cpp/linux-x64-none")).toBeUndefined();
  });
});

describe("what llama.cpp lacks for a GPU", () => {
  it("is what is not there and can be fetched", () => {
    const bare = machine({ bins: () => undefined });
    const [cuda, ext] = ["@node-llama-cpp/linux-x64-cuda", "@node-llama-cpp/linux-x64-cuda-ext"];
    expect(lackingLibraries("cuda", 13, bare)).toEqual([cuda]);
    expect(lackingLibraries("cuda", 12, bare)).toEqual([cuda, ext]);
    expect(lackingLibraries("cuda", 12, machine({ bins: (name) => (name === cuda ? "/b" : undefined) }))).toEqual([
      ext,
    ]);
    expect(lackingLibraries("vulkan", undefined, bare)).toEqual(["@node-llama-cpp/linux-x64-vulkan"]);
    expect(lackingLibraries("vulkan", undefined, machine({}))).toEqual([]);
    expect(lackingLibraries("cuda", 13, machine({ arch: "arm64", bins: () => undefined }))).toEqual([]);
  });
});

describe("an NVIDIA GPU that is there", () => {
  it("has a backend for each CUDA, or a package is missing", () => {
    const base = "/modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda/libggml-base.so";
    expect(cudaBackend(13, machine({}))).toEqual({
      base,
      file: "/modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda/libggml-cuda.so",
    });
    expect(cudaBackend(12, machine({}))).toEqual({
      base,
      file: "/modules/@node-llama-cpp/linux-x64-cuda-ext/bins/linux-x64-cuda/fallback/libggml-cuda.so",
    });
    expect(cudaBackend(12, machine({ bins: (name) => (name.endsWith("ext") ? undefined : "/b") }))).toEqual({
      missing:
        "no build of it for linux x64 is installed (looked for @node-llama-cpp/linux-x64-cuda-ext); `yarn doctor --install` fetches it",
    });
    expect(cudaBackend(13, machine({ arch: "arm64", bins: () => undefined }))).toEqual({
      missing: "no build of it for linux arm64 is installed (looked for @node-llama-cpp/linux-arm64-cuda)",
    });
  });

  it("and does not work is told in one line with the ways to go on", () => {
    const card = { index: 0, uuid: undefined, name: "NVIDIA X", capability: 89, memoryBytes: undefined };
    expect(unusedCard({ named: false, card, driver: "550.54" }, "it is gone")).toBe(
      "--gpu auto: llama.cpp cannot use the NVIDIA GPU (0 NVIDIA X, driver 550.54): it is gone; mend that, or go on without it: --gpu off for the CPU, or --gpu vulkan",
    );
    expect(nvidiaBroken("nvidia-smi fails: mismatch")).toMatch(
      /^--gpu auto: this machine has an NVIDIA GPU, but its driver does not work: nvidia-smi fails: mismatch; mend that/,
    );
  });

  // Each of these ends before anything could be installed for the cards, which are not there.
  const logprobs = (cards: Cards, ...args: string[]) => {
    const bin = mkdtempSync(join(folder, "bin-"));
    const tokens = join(folder, "ids.json");
    writeFileSync(tokens, "[1,2,3]");
    listCards(bin, cards);
    const given = ["logprobs", "--model", "tiny", "--tokens", tokens, ...args];
    const { CUDA_VISIBLE_DEVICES: _, ...env } = process.env;
    return spawnSync(process.execPath, [join(packageRoot, "dist/src/cli.js"), ...given], {
      cwd: folder,
      encoding: "utf8",
      env: { ...env, PATH: `${bin}:${process.env.PATH}` },
    });
  };
  const old = { driver: "470.42.01", names: ["NVIDIA One", "NVIDIA Two"] };

  it("is not passed over by a command", () => {
    const { status, stdout, stderr } = logprobs(old);
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^hone: --gpu auto: llama\.cpp cannot use the NVIDIA GPU \(0 NVIDIA One .*too old.*\n$/);
    expect(logprobs(old, "--device", "1").stderr).toMatch(/\(1 NVIDIA Two /);
    expect(logprobs(old, "--gpu", "off").status).toBe(0);
  });

  it("is chosen with --device, whose mistakes are usage", () => {
    const { status, stderr } = logprobs(old, "--device", "5");
    expect([status, stderr]).toEqual([
      2,
      "hone: --device 5 names no NVIDIA GPU, or more than one; there are 0 NVIDIA One (GPU-11111111), 1 NVIDIA Two (GPU-22222222)\n",
    ]);
    expect(logprobs(old, "--gpu", "off", "--device", "1").status).toBe(2);
  });
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
