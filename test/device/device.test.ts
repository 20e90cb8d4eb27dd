/** The one device of a process: what is set for engine and learner, and what is reported. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type * as DeviceFile from "../../src/engine/device/device.js";
import type * as PlaceFile from "../../src/engine/device/learner-place.js";
import type { Machine } from "../../src/engine/device/nvidia.js";
import { listCards, uuidOf } from "../support/nvidia.js";

let root: string;
let device: typeof DeviceFile & typeof PlaceFile;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "hone-device-"));
  // Each test is a process of its own: one choice is made in each.
  vi.resetModules();
  device = {
    ...(await import("../../src/engine/device/device.js")),
    ...(await import("../../src/engine/device/learner-place.js")),
  };
});
afterEach(() => rmSync(root, { recursive: true }));

const machine = (env: NodeJS.ProcessEnv = {}): Machine => ({ env: { PATH: join(root, "bin"), ...env }, root });
const two = (driver = "590.44.01") => listCards(join(root, "bin"), { driver, names: ["NVIDIA One", "NVIDIA Two"] });

describe("the device of a process", () => {
  it("is the only one that CUDA shows to engine and learner", () => {
    two();
    const here = machine();
    expect(device.takeDevice({ gpu: "auto", device: "1" }, here)).toMatchObject({ card: { index: 1 }, hidden: false });
    expect(here.env).toMatchObject({ CUDA_DEVICE_ORDER: "PCI_BUS_ID", CUDA_VISIBLE_DEVICES: uuidOf(1) });
    expect(here.env.GGML_VK_VISIBLE_DEVICES).toBeUndefined();
    // Later calls, without a name or with the same one, get it too.
    expect(device.takeDevice({ gpu: "auto" }, here).card?.index).toBe(1);
    expect(device.takeDevice({ gpu: "auto", device: "1" }, here).card?.index).toBe(1);
    expect(() => device.takeDevice({ gpu: "auto", device: "0" }, here)).toThrow(
      "device 0 was asked for, but this process already uses 1 NVIDIA Two (GPU-22222222)",
    );
  });

  it("is the first one that CUDA_VISIBLE_DEVICES leaves", () => {
    two();
    const here = machine({ CUDA_VISIBLE_DEVICES: "1,0" });
    expect(device.takeDevice({ gpu: "cuda" }, here).card?.index).toBe(1);
    expect(here.env.CUDA_VISIBLE_DEVICES).toBe(uuidOf(1));
  });

  it.each([
    [undefined, "1", [1, 0]],
    [undefined, undefined, [0, 1]],
    ["1", undefined, [1]],
  ])("comes first of the cards of several learners: visible %o, chosen %o", (visible, chosen, cards) => {
    two();
    expect(device.learnerCards()).toBeUndefined();
    const here = machine(visible === undefined ? {} : { CUDA_VISIBLE_DEVICES: visible });
    device.takeDevice({ gpu: "auto", device: chosen }, here);
    expect(device.learnerCards()).toBe(cards.map(uuidOf).join(","));
  });

  it("is not the learner's where that has another card, and CUDA shows it that one alone", () => {
    two();
    device.takeDevice({ gpu: "auto", device: "0" }, machine());
    const place = device.learnerPlace("1", "cuda");
    expect(place).toMatchObject({ device: "cuda", card: { index: 1 }, cards: uuidOf(1), apart: true });
    // Several learners share out what the engine does not use.
    expect(device.learnerCards(place.card)).toBe(uuidOf(1));
    expect(device.learnerPlace("cpu", "cuda")).toEqual({ device: "cpu", apart: true });
    expect(device.learnerPlace(undefined, "cuda")).toEqual({ device: "cuda", apart: false });
    expect(device.learnerPlace("0", "cuda")).toEqual({ device: "cuda", apart: false });
    expect(device.learnerPlace("cpu", false)).toEqual({ device: "cpu", apart: false });
  });

  it.each([
    ["2", undefined, "--learner-device 2 names no NVIDIA GPU, or more than one; there are 0 NVIDIA One"],
    ["1", "0", "--learner-device 1: CUDA_VISIBLE_DEVICES hides 1 NVIDIA Two"],
  ])("is the learner's too where --learner-device %s is none: visible %o", (named, visible, line) => {
    two();
    device.takeDevice({ gpu: "auto" }, machine(visible === undefined ? {} : { CUDA_VISIBLE_DEVICES: visible }));
    expect(() => device.learnerPlace(named, "cuda")).toThrow(line);
  });

  it("is a CPU where a card is named for the learner alone, which is refused", () => {
    two();
    device.takeDevice({ gpu: "off" }, machine());
    expect(() => device.learnerPlace("1", false)).toThrow(
      "--learner-device 1: names the learner's card beside an engine on an NVIDIA GPU, and here the engine computes on the CPU",
    );
  });

  it.each(["", "-1"])("is none when CUDA_VISIBLE_DEVICES is %o, whatever the driver says", (list) => {
    two();
    const here = machine({ CUDA_VISIBLE_DEVICES: list });
    expect(device.takeDevice({ gpu: "auto" }, here)).toMatchObject({ card: undefined, hidden: true });
    expect(here.env).toEqual({ PATH: join(root, "bin"), CUDA_VISIBLE_DEVICES: list });
  });

  it("of Vulkan is an index, and leaves CUDA alone", () => {
    two();
    const here = machine();
    expect(device.takeDevice({ gpu: "vulkan", device: "1" }, here).vulkan).toBe("1");
    expect(here.env).toEqual({ PATH: join(root, "bin"), GGML_VK_VISIBLE_DEVICES: "1" });
  });

  it("of a machine without NVIDIA is Vulkan's", () => {
    const here = machine();
    expect(device.takeDevice({ gpu: "auto", device: "0" }, here)).toMatchObject({ card: undefined, vulkan: "0" });
    expect(here.env.GGML_VK_VISIBLE_DEVICES).toBe("0");
  });

  it.each([
    ["auto", "GPU-1", "--device GPU-1: there is no NVIDIA GPU to choose; for Vulkan give an index"],
    ["cuda", "0", "--device 0: there is no NVIDIA GPU to choose; for Vulkan give an index"],
    ["off", "0", "--device 0 names a GPU, and --gpu off uses none"],
  ] as const)("cannot be %s with --device %s", (gpu, name, line) => {
    expect(() => device.takeDevice({ gpu, device: name }, machine())).toThrow(line);
  });
});

describe("the report", () => {
  const packages = { sites: [], prefix: undefined, torchCuda: undefined };

  it("says what would be used, what is missing, and changes nothing", () => {
    two();
    const here = machine();
    const report = device.reportDevice({ gpu: "auto", device: uuidOf(1) }, packages, here);
    expect(report).toMatchObject({
      nvidia: { driver: "590.44.01", problem: undefined },
      card: { index: 1, name: "NVIDIA Two" },
      hidden: false,
      cuda: { majors: [13, 12], runtime: { major: 13 } },
    });
    expect(report.cuda?.problem).toBe(
      "libcudart.so.13, libcublasLt.so.13, libcublas.so.13 not found (CUDA 13's runtime libraries; neither in the Python environment nor in the system)",
    );
    expect(here.env).toEqual({ PATH: join(root, "bin") });
  });

  it("takes the CUDA that the environment's PyTorch was built for", () => {
    two();
    for (const major of [12, 13]) {
      for (const name of ["cudart", "cublasLt", "cublas"]) {
        const file = join(root, `usr/local/cuda-${major}/lib64/lib${name}.so.${major}`);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, "");
      }
    }
    const found = (torchCuda: string | null) =>
      device.reportDevice({ gpu: "auto" }, { ...packages, torchCuda }, machine()).cuda;
    expect(found("12.6")).toMatchObject({ problem: undefined, runtime: { major: 12 } });
    expect(found("13.0")).toMatchObject({ problem: undefined, runtime: { major: 13 } });
    expect(found(null)).toMatchObject({ problem: undefined, runtime: { major: 13, from: "the system" } });
  });

  it("names the driver that is needed where it is too old", () => {
    two("470.42.01");
    const { card, cuda } = device.reportDevice({ gpu: "auto" }, packages, machine());
    expect(card?.index).toBe(0);
    expect(cuda?.problem).toMatch(/the NVIDIA driver 470\.42\.01 is too old: .* needs 525 or newer/);
  });

  it("of a machine without NVIDIA is empty", () => {
    expect(device.reportDevice({ gpu: "auto" }, packages, machine())).toEqual({
      nvidia: { gpus: [], driver: undefined, problem: undefined },
      card: undefined,
      hidden: false,
      cuda: undefined,
    });
  });
});
