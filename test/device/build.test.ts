import { describe, expect, it } from "vitest";
import { learnerDevice } from "../../src/engine/device/build.js";

describe("the learner beside an engine", () => {
  it.each([
    ["cuda", { device: "cuda" }],
    ["vulkan", { device: "cpu", note: "the learner computes on the CPU: PyTorch has no Vulkan" }],
    ["metal", { device: "cpu", note: "the learner computes on the CPU: it has no Metal backend" }],
    [false, { device: "cpu" }],
  ] as const)("on %s", (backend, expected) => {
    expect(learnerDevice(backend)).toEqual(expected);
  });
});
