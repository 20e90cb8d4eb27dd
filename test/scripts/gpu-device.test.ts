/** Which device `yarn test:gpu` takes, and what `.ci/run` adds of it. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

const { chooseDevice } = await import(join(packageRoot, "scripts/gpu-device.mjs"));
const { failures } = await import(join(packageRoot, "scripts/test-ground.mjs"));
const { figuresIn } = await import(join(packageRoot, "scripts/part-reports.mjs"));

const card = { name: "NVIDIA L4", driver: "NVIDIA driver 580.95" };
const radeon = {
  index: 0,
  kind: "discrete",
  name: "AMD Radeon RX 7900",
  driver: "radv",
  info: "Mesa 25.2.1",
};
const llvmpipe = (index: number, info = "Mesa 25.0.7-2 (LLVM 19.1.7)") => ({
  index,
  kind: "cpu",
  name: "llvmpipe (LLVM 19.1.7, 256 bits)",
  driver: "llvmpipe",
  info,
});
const nothing = { devices: [], why: "libvulkan.so.1, the Vulkan loader, is not installed" };
const machine = (more: object) => ({ nvidia: [], vulkan: nothing, ...more });
const vulkan = (...devices: object[]) => ({ devices, why: "" });

describe("the device of the GPU tests", () => {
  it("is an NVIDIA GPU with CUDA, then another GPU with Vulkan, then llvmpipe", () => {
    const all = { nvidia: [card], vulkan: vulkan(radeon, llvmpipe(1)) };
    expect(chooseDevice(machine(all)).device).toMatchObject({ backend: "cuda", ...card, software: false, env: {} });
    expect(chooseDevice(machine({ ...all, nvidia: [] })).device).toEqual({
      backend: "vulkan",
      name: "AMD Radeon RX 7900",
      driver: "radv Mesa 25.2.1",
      software: false,
      env: { GGML_VK_VISIBLE_DEVICES: "0" },
    });
    const software = { backend: "vulkan", software: true, env: { GGML_VK_VISIBLE_DEVICES: "0" } };
    expect(chooseDevice(machine({ vulkan: vulkan(llvmpipe(0)) })).device).toMatchObject(software);
  });

  it("is llvmpipe where it is asked for, by its own index", () => {
    const all = { nvidia: [card], vulkan: vulkan(radeon, llvmpipe(1)), visible: "0", software: true };
    expect(chooseDevice(machine(all)).device).toMatchObject({ software: true, env: { GGML_VK_VISIBLE_DEVICES: "1" } });
    expect(chooseDevice(machine({ vulkan: vulkan(radeon), software: true })).notRun).toMatch(/none is llvmpipe; /);
  });

  it("is the one that GGML_VK_VISIBLE_DEVICES names", () => {
    const two = { vulkan: vulkan(radeon, llvmpipe(1)) };
    expect(chooseDevice(machine({ ...two, visible: "1" })).device).toMatchObject({ software: true });
    expect(chooseDevice(machine({ ...two, visible: "7" })).notRun).toBe(
      "GGML_VK_VISIBLE_DEVICES names device 7; there is: 0 (AMD Radeon RX 7900), 1 (llvmpipe (LLVM 19.1.7, 256 bits))",
    );
  });

  it("is none, in one line that says how to mend it, where there is only an old Mesa, or nothing", () => {
    for (const visible of [undefined, "0"]) {
      const old = vulkan(llvmpipe(0, "Mesa 22.3.6 (LLVM 15.0.6)"));
      const { device, notRun } = chooseDevice(machine({ vulkan: old, visible }));
      expect(device).toBe(undefined);
      expect(notRun).toMatch(
        /^[^\n]*Mesa 22\.3\.6[^\n]* corrupts its own heap; it takes Mesa 25 or newer: [^\n]*backports/,
      );
    }
    expect(chooseDevice(machine({})).notRun).toMatch(
      /^there is no device to test on: no NVIDIA GPU, and libvulkan\.so\.1, [^\n]* is not installed; [^\n]*backports[^\n]*$/,
    );
  });
});

describe("the report of the GPU tests", () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-gpu-report-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const figures = (report: object) => {
    const file = join(folder, "gpu.json");
    writeFileSync(file, JSON.stringify(report));
    return figuresIn(file, "the tests on a GPU");
  };

  it("gives its figures to those of all tests", () => {
    const device = { backend: "vulkan", name: "llvmpipe", driver: "Mesa 25.0.7" };
    expect(figures({ device, passed: 12, failed: 1 })).toEqual({
      line: "the tests on a GPU (vulkan, llvmpipe, Mesa 25.0.7): 12 passed, 1 failed",
      passed: 12,
      failed: 1,
    });
  });

  it("names the tests that failed, with their errors", () => {
    const failed = {
      name: "a.test.ts",
      assertionResults: [{ status: "failed", fullName: "a turn", failureMessages: ["2 is not 1\nat x"] }],
    };
    const broken = { name: "b.test.ts", message: "cannot be loaded\nat y", assertionResults: [] };
    const passed = {
      name: "c.test.ts",
      message: "",
      assertionResults: [{ status: "passed", fullName: "c", failureMessages: [] }],
    };
    const lines = failures({ testResults: [failed, broken, passed] });
    expect(lines).toEqual(["a turn: 2 is not 1", "b.test.ts: cannot be loaded"]);
    const device = { backend: "cuda", name: "a GPU", driver: "590" };
    expect(figures({ device, passed: 1, failed: 2, failures: lines }).line.split("\n")).toEqual([
      "the tests on a GPU (cuda, a GPU, 590): 1 passed, 2 failed",
      "failed: a turn: 2 is not 1",
      "failed: b.test.ts: cannot be loaded",
    ]);
  });

  it("says why nothing was run, which is no failure", () => {
    const notRun = "there is no device to test on";
    expect(figures({ device: null, notRun, passed: 0, failed: 0 })).toEqual({
      line: `not run: the tests on a GPU: ${notRun}`,
      passed: 0,
      failed: 0,
    });
  });

  it("that is missing is a failure", () => {
    expect(figuresIn(join(folder, "none.json"), "the tests")).toMatchObject({ passed: 0, failed: 1 });
  });
});
