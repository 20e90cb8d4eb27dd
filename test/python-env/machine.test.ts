/** What is made ready before llama.cpp is loaded: the environment comes first where CUDA's libraries come with it. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type MachineSettings, pythonFor } from "../../src/machine/python/machine.js";
import { type Cards, listCards, uuidOf } from "../support/nvidia.js";

let folder: string;
const before = { ...process.env };
const ensurePython = vi.fn(async () => "python");
const fetched: string[] = [];
const vulkan = { loads: false, card: false, offline: false };
const empty = { sites: [], prefix: undefined, torchCuda: undefined };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-machine-"));
  ensurePython.mockClear();
  vi.resetModules();
  // Nothing is installed, and this machine's own environment has no say.
  vi.doMock("../../src/machine/python/python.js", () => ({ ensurePython }));
  vi.doMock("../../src/machine/python/given.js", () => ({ packagesOfPython: async () => empty }));
  vi.doMock("../../src/engine/device/runtime.js", async (original) => ({
    ...(await original<typeof import("../../src/engine/device/runtime.js")>()),
    packagesIn: () => empty,
  }));
  fetched.length = 0;
  vi.doMock("../../src/engine/missing.js", () => ({
    cudaExists: () => true,
    hasVulkan: () => vulkan.loads,
    hasVulkanCard: () => vulkan.card,
    lackingLibraries: (...wanted: unknown[]) => [wanted.join(" ")],
    nvidiaBroken: (why: string) => why,
  }));
  vi.doMock("../../src/engine/libraries.js", () => ({
    fetchLibraries: async (names: readonly string[]) => {
      fetched.push(...names);
      // Of the modules that were loaded anew.
      const { HoneError } = await import("../../src/core/util/errors.js");
      if (vulkan.offline) throw new HoneError("there is no network");
    },
  }));
});
afterEach(() => {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, before);
  Object.assign(vulkan, { loads: false, card: false, offline: false });
  vi.doUnmock("../../src/machine/python/python.js");
  vi.doUnmock("../../src/machine/python/given.js");
  vi.doUnmock("../../src/engine/device/runtime.js");
  vi.doUnmock("../../src/engine/missing.js");
  vi.doUnmock("../../src/engine/libraries.js");
  rmSync(folder, { recursive: true });
});

const ada = { driver: "590.44.01", names: ["NVIDIA One", "NVIDIA Two"] };

const said: string[] = [];

/** @param cards undefined where there is no NVIDIA card */
async function prepare(
  cards: Cards | undefined,
  settings: Partial<MachineSettings> = {},
  learns = false,
): Promise<boolean> {
  if (cards) listCards(folder, cards);
  said.length = 0;
  process.env.PATH = `${folder}:/usr/bin:/bin`;
  delete process.env.CUDA_VISIBLE_DEVICES;
  const { prepareMachine } = await import("../../src/machine/python/machine.js");
  const all = { gpu: "auto" as const, device: undefined, python: undefined, torchIndex: undefined, ...settings };
  return prepareMachine(all, (line) => said.push(line), learns);
}

function systemLibraries(): void {
  for (const name of ["cudart", "cublasLt", "cublas"]) writeFileSync(join(folder, `lib${name}.so.13`), "");
  process.env.LD_LIBRARY_PATH = folder;
}

describe("before llama.cpp is loaded", () => {
  it("the environment is made where CUDA's libraries are nowhere else, though nothing is learnt", async () => {
    expect(await prepare(ada, { device: "1", torchIndex: "http://mirror" })).toBe(true);
    expect(ensurePython).toHaveBeenCalledWith(expect.objectContaining({ torchIndex: "http://mirror" }));
    expect(process.env.CUDA_VISIBLE_DEVICES).toBe(uuidOf(1));
  });

  it("the system's libraries will do to play, and not to learn", async () => {
    systemLibraries();
    expect(await prepare(ada)).toBe(true);
    expect(ensurePython).not.toHaveBeenCalled();
    await prepare(ada, {}, true);
    expect(ensurePython).toHaveBeenCalledOnce();
  });

  it("nothing is installed for a driver that is too old", async () => {
    expect(await prepare({ driver: "470.42.01" }, {}, true)).toBe(true);
    expect(ensurePython).not.toHaveBeenCalled();
  });

  it("nothing is installed into a Python that the user names", async () => {
    await prepare(ada, { python: "/their/python" });
    expect(ensurePython).not.toHaveBeenCalled();
    await prepare(ada, { python: "/their/python" }, true);
    expect(ensurePython).toHaveBeenCalledWith(expect.objectContaining({ python: "/their/python" }));
  });

  it.each(["off", "vulkan"] as const)("nothing of CUDA happens with --gpu %s", async (gpu) => {
    expect(await prepare(ada, { gpu }, true)).toBe(false);
    expect(ensurePython).not.toHaveBeenCalled();
    expect(process.env.CUDA_VISIBLE_DEVICES).toBeUndefined();
  });
});

describe("llama.cpp's libraries", () => {
  it.each([
    ["590.44.01", 13],
    ["550.54.14", 12],
  ])("for the CUDA of the card with driver %s are fetched", async (driver, major) => {
    await prepare({ ...ada, driver });
    expect(fetched).toEqual([`cuda ${major}`]);
  });

  it("for CUDA are not fetched for a driver that runs none, nor where the card is left out", async () => {
    await prepare({ driver: "470.42.01" });
    await prepare(ada, { gpu: "off" });
    expect(fetched).toEqual([]);
  });

  it("for Vulkan are fetched where they can be loaded: asked for, or for a card where none of NVIDIA's is", async () => {
    await prepare(undefined, { gpu: "vulkan" });
    await prepare(undefined);
    expect(fetched).toEqual([]);
    vulkan.loads = true;
    await prepare(undefined);
    expect(fetched).toEqual([]);
    await prepare(undefined, { gpu: "vulkan" });
    vulkan.card = true;
    await prepare(undefined);
    expect(fetched).toEqual(["vulkan", "vulkan"]);
  });

  it("that cannot be had leave a card unused that nobody asked for", async () => {
    Object.assign(vulkan, { loads: true, card: true, offline: true });
    expect(await prepare(undefined)).toBe(false);
    expect(said).toEqual(["the GPU is left unused: there is no network"]);
    await expect(prepare(undefined, { gpu: "vulkan" })).rejects.toThrow("there is no network");
  });

  it("that cannot be had end the command where the card is NVIDIA's", async () => {
    vulkan.offline = true;
    await expect(prepare(ada)).rejects.toThrow("there is no network");
  });
});

describe("the Python that a training asks for", () => {
  const choice = { python: undefined, torchIndex: undefined, learner: "auto" as const };
  const say = () => undefined;
  const plain = { cpu: true, extras: [], python: undefined };

  it.each([
    ["what suffices", choice, false, plain],
    ["one for the GPU", choice, true, { ...plain, cpu: false }],
    [
      "Unsloth where it is to learn",
      { ...choice, learner: "unsloth" as const },
      false,
      { ...plain, extras: ["unsloth"] },
    ],
    ["that which is given", { ...choice, python: "/p" }, false, { ...plain, python: "/p" }],
  ])("is %s", (_, config, cuda, wanted) => {
    expect(pythonFor(config, cuda, say)).toEqual({ onProgress: say, torchIndex: undefined, ...wanted });
  });
});
