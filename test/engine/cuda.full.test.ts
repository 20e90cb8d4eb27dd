/**
 * llama.cpp's CUDA backend without a GPU: node-llama-cpp's real libraries, each in a process of its own, over stand-ins
 * for NVIDIA's. They load or fail as the real ones would until something is computed.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { findRuntime, isComplete, runtimeNames } from "../../src/engine/device/runtime.js";
import { cudaBackend, thisMachine } from "../../src/engine/missing.js";
import { sumIn32Bits } from "../../src/engine/sums.js";
import { lackOf } from "../support/libraries.js";
import { type Cards, listCards, uuidOf } from "../support/nvidia.js";
import { anyPython } from "../support/python.js";

const lack = await lackOf("cuda", "cuda-ext");
const here = lack === "";
const folder = mkdtempSync(join(tmpdir(), "hone-cuda-"));
afterAll(() => rmSync(folder, { recursive: true }));

const set = (major: 12 | 13, answer: "none" | "device") => join(folder, `${answer}-${major}`);

beforeAll(() => {
  if (!here) return;
  // A file: node-llama-cpp starts a process with this one's arguments.
  writeFileSync(join(folder, "open.mjs"), script);
  const python = anyPython();
  for (const major of [12, 13] as const) {
    const backend = cudaBackend(major, thisMachine);
    if ("missing" in backend) throw new Error(backend.missing);
    for (const answer of ["none", "device"] as const) {
      const made = set(major, answer);
      const script = join(packageRoot, "test/support/cuda_stand_ins.py");
      execFileSync(python, [script, backend.file, made, String(major), answer]);
      // The driver's library is the loader's to find; the others are hone's.
      mkdirSync(join(made, "driver"));
      renameSync(join(made, "libcuda.so.1"), join(made, "driver/libcuda.so.1"));
      mkdirSync(join(made, "kit"));
      mkdirSync(join(made, `nvidia/cu${major}`), { recursive: true });
      symlinkSync(made, join(made, `nvidia/cu${major}/lib`));
      symlinkSync(made, join(made, "kit/lib64"));
    }
  }
});

const script = `
import { readFileSync } from "node:fs";
import { lookForCuda, takeDevice } from ${JSON.stringify(join(packageRoot, "dist/src/engine/device/device.js"))};
import { openAddon, gpuOf } from ${JSON.stringify(join(packageRoot, "dist/src/engine/addon.js"))};
const out = {};
try {
  // An environment of the test's, whatever the machine's own has.
  takeDevice({ gpu: process.argv[2] });
  lookForCuda({ sites: process.argv.slice(3), prefix: undefined, torchCuda: undefined });
  const devices = (await openAddon(process.argv[2])).devices();
  Object.assign(out, { gpu: gpuOf(devices), devices: devices.filter((one) => one.isGpu).map((one) => one.description) });
} catch (error) {
  out.error = error.message;
}
out.libraries = [...new Set(readFileSync("/proc/self/maps", "utf8").match(/\\S*lib(ggml-cuda|ggml-vulkan|cudart|cublas|cublasLt|cuda)\\.so\\S*/g))];
out.env = { LD_LIBRARY_PATH: process.env.LD_LIBRARY_PATH, CUDA_VISIBLE_DEVICES: process.env.CUDA_VISIBLE_DEVICES };
process.stdout.write(JSON.stringify(out));
process.exit(0);
`;

interface Opened {
  gpu?: string | false;
  devices?: string[];
  error?: string;
  libraries: string[];
  env: NodeJS.ProcessEnv;
}

/** Opens the addon on a machine with these cards. */
function open(gpu: string, cards: Cards | undefined, env: NodeJS.ProcessEnv = {}, sites: string[] = []): Opened {
  const bin = mkdtempSync(join(folder, "bin-"));
  if (cards) listCards(bin, cards);
  const { CUDA_VISIBLE_DEVICES: _, CUDA_PATH: __, LD_LIBRARY_PATH: ___, ...inherited } = process.env;
  const { stdout, stderr } = spawnSync(process.execPath, [join(folder, "open.mjs"), gpu, ...sites], {
    cwd: folder,
    encoding: "utf8",
    env: { ...inherited, PATH: `${bin}:${process.env.PATH}`, ...env },
  });
  if (stdout === "") throw new Error(stderr);
  return JSON.parse(stdout) as Opened;
}

const from = (major: 12 | 13, answer: "none" | "device") => ({
  CUDA_PATH: join(set(major, answer), "kit"),
  LD_LIBRARY_PATH: join(set(major, answer), "driver"),
});
const card = { names: ["NVIDIA One", "NVIDIA Two"], driver: "590.44.01" };
const goOn = "; mend that, or go on without it: --gpu off for the CPU, or --gpu vulkan";

describe.skipIf(!here)(`the CUDA backend on stand-ins${lack}`, () => {
  it.each([
    [13, "590.44.01", "linux-x64-cuda/libggml-cuda.so"],
    [12, "550.54.14", "fallback/libggml-cuda.so"],
  ] as const)("loads for CUDA %i (driver %s) from %s, on one card", (major, driver, library) => {
    // As a Python environment has them; the driver's library is the system's.
    const system = { LD_LIBRARY_PATH: from(major, "device").LD_LIBRARY_PATH };
    const opened = open("auto", { ...card, driver }, system, [set(major, "device")]);
    expect(opened).toMatchObject({ gpu: "cuda", devices: ["Stand-in GPU"] });
    expect(opened.env.CUDA_VISIBLE_DEVICES).toBe(uuidOf(0));
    // What was set for the process that tries the backend does not stay for the learner.
    expect(opened.env.LD_LIBRARY_PATH).toBe(join(set(major, "device"), "driver"));
    const backends = opened.libraries.filter((file) => file.includes("ggml-cuda"));
    expect(backends).toEqual([expect.stringContaining(library)]);
    expect(
      opened.libraries.filter((file) => /cudart|cublas/.test(file)).every((file) => file.endsWith(`.so.${major}`)),
    ).toBe(true);
  });

  it.each([13, 12] as const)("for CUDA %i says in CUDA's own words that it finds no device", (major) => {
    const driver = major === 13 ? "590.44.01" : "550.54.14";
    const { error, libraries } = open("auto", { ...card, driver }, from(major, "none"));
    expect(error).toBe(
      `--gpu auto: llama.cpp cannot use the NVIDIA GPU (0 NVIDIA One (GPU-11111111), driver ${driver}): CUDA says: no CUDA-capable device is detected${goOn}`,
    );
    expect(libraries.some((file) => file.includes("libggml-cuda.so"))).toBe(true);
  });

  it("whose driver's library this process cannot load is no reason to compute on the CPU", () => {
    // It lies beside the others: the process that tries the backend finds it there, this one's loader does not.
    const kit = join(folder, "whole/lib64");
    mkdirSync(kit, { recursive: true });
    for (const name of runtimeNames(13)) symlinkSync(join(set(13, "device"), name), join(kit, name));
    symlinkSync(join(set(13, "device"), "driver/libcuda.so.1"), join(kit, "libcuda.so.1"));
    const { error } = open("auto", card, { CUDA_PATH: join(folder, "whole") });
    expect(error).toMatch(
      /driver 590\.44\.01\): libcuda\.so\.1: cannot open shared object file.*; mend that, or go on/,
    );
  });

  it("is not given CUDA 13 where the card needs CUDA 12", () => {
    const both = [join(set(12, "device"), "driver"), set(12, "device"), set(13, "device")].join(":");
    const { error } = open("auto", { driver: "580.65.06", capability: "7.0" }, { LD_LIBRARY_PATH: both });
    expect(error).toMatch(/it needs CUDA 12 here, but CUDA 13's libraries of the system were taken/);
  });

  const runtime = here && findRuntime([13, 12], { sites: [], prefix: undefined, torchCuda: undefined });
  const had = runtime && isComplete(runtime);
  const why = had ? " (skipped: this system has them)" : "";
  it.skipIf(had).each(["auto", "cuda"])(`under --gpu %s is an error without CUDA's libraries${why}`, (gpu) => {
    expect(open(gpu, card).error).toMatch(
      new RegExp(
        `^--gpu ${gpu}: llama\\.cpp cannot use the NVIDIA GPU .*libcudart\\.so\\.13, .*not found .*--gpu vulkan$`,
      ),
    );
  });

  it.each(["auto", "cuda"])("under --gpu %s is an error with an old driver", (gpu) => {
    expect(open(gpu, { driver: "470.42.01" }).error).toMatch(/driver 470\.42\.01 is too old: .* needs 525 or newer/);
  });

  it("is left alone when the cards are hidden, declined, or not there", () => {
    const env = from(13, "device");
    expect(open("auto", card, { ...env, CUDA_VISIBLE_DEVICES: "" })).toMatchObject({ gpu: false, libraries: [] });
    expect(open("auto", undefined, env).libraries.filter((file) => file.includes("ggml-cuda"))).toEqual([]);
  });
});

describe("sums of products", () => {
  it.each([
    ["cuda", "F16", {}, "f32"],
    ["cuda", "Q8_0", {}, "f32"],
    ["cuda", "BF16", {}, undefined],
    ["vulkan", "F16", {}, undefined],
    [false, "F16", {}, undefined],
    ["cuda", "F16", { GGML_CUDA_CUBLAS_COMPUTE_TYPE: "f16" }, "f16"],
  ] as const)("on %s with %s weights and %o: %s", (gpu, weights, env: NodeJS.ProcessEnv, expected) => {
    const mine = { ...env };
    sumIn32Bits(gpu, weights, mine);
    expect(mine.GGML_CUDA_CUBLAS_COMPUTE_TYPE).toBe(expected);
  });
});
