/** Which card is used: CUDA_VISIBLE_DEVICES, then --device, then the first. */
import { describe, expect, it } from "vitest";
import { UsageError } from "../../src/core/util/errors.js";
import type { NvidiaGpu } from "../../src/engine/device/nvidia.js";
import { chooseCard, visibleGpus } from "../../src/engine/device/visible.js";
import { uuidOf } from "../support/nvidia.js";

const gpus: NvidiaGpu[] = [0, 1, 2].map((index) => ({
  index,
  uuid: uuidOf(index),
  name: `NVIDIA ${index}`,
  capability: 89,
  memoryBytes: 1,
}));
const indices = (list: string | undefined) => visibleGpus(gpus, list).map(({ index }) => index);

describe("CUDA_VISIBLE_DEVICES", () => {
  it.each([
    [undefined, [0, 1, 2]],
    ["", []],
    ["-1", []],
    ["2,0", [2, 0]],
    [" 1 , 2 ", [1, 2]],
    ["1,7,2", [1]],
    ["0,-1,2", [0]],
    [uuidOf(1), [1]],
    ["GPU-3333", [2]],
    ["GPU-", []],
    ["none", []],
  ])("%s", (list, expected) => {
    expect(indices(list)).toEqual(expected);
  });

  it("may name a slice of a card", () => {
    const [slice] = visibleGpus(gpus.slice(0, 1), "MIG-1234");
    expect(slice).toMatchObject({ index: 0, uuid: "MIG-1234", name: "a MIG slice of NVIDIA 0", capability: 89 });
    expect(visibleGpus([], "MIG-1234")).toEqual([]);
  });
});

describe("--device", () => {
  const choose = (device: string | undefined, list?: string) =>
    chooseCard(gpus, visibleGpus(gpus, list), device)?.index;

  it("is the first visible card by default, else the one that is named", () => {
    expect(choose(undefined)).toBe(0);
    expect(choose(undefined, "2,1")).toBe(2);
    expect(choose(undefined, "")).toBeUndefined();
    expect(choose("1")).toBe(1);
    expect(choose("1", "2,1")).toBe(1);
    expect(choose(uuidOf(2))).toBe(2);
    expect(choose("gpu-2222")).toBe(1);
    expect(choose("22222222-aaaa")).toBe(1);
    expect(chooseCard(gpus, gpus, "MIG-77")?.uuid).toBe("MIG-77");
  });

  it("that names none is refused with a list of those that there are", () => {
    expect(() => choose("7")).toThrow(UsageError);
    expect(() => choose("7")).toThrow(
      "--device 7 names no NVIDIA GPU, or more than one; there are 0 NVIDIA 0 (GPU-11111111), 1 NVIDIA 1 (GPU-22222222), 2 NVIDIA 2 (GPU-33333333)",
    );
    expect(() => choose("GPU-")).toThrow(/more than one/);
    expect(() => choose("0", "1")).toThrow("--device 0: CUDA_VISIBLE_DEVICES hides 0 NVIDIA 0 (GPU-11111111)");
    expect(() => choose("9", "")).toThrow(/CUDA_VISIBLE_DEVICES hides them all/);
  });
});
