import { describe, expect, it } from "vitest";
import { type LearnerChoice, pythonFor } from "../../src/python-env/for-training.js";

const choice: LearnerChoice = { python: undefined, torchIndex: undefined, learner: "auto", adamBits: "32" };
const say = () => undefined;

describe("the Python that a training asks for", () => {
  it.each([
    ["what suffices", choice, false, { cpu: true, unsloth: false }],
    ["one for the GPU", choice, true, { cpu: false, unsloth: false }],
    ["Unsloth where it is to learn", { ...choice, learner: "unsloth" as const }, true, { cpu: false, unsloth: true }],
    ["Unsloth for 8-bit Adam", { ...choice, adamBits: "8" as const }, true, { cpu: false, unsloth: true }],
    ["that which is given", { ...choice, python: "/p" }, false, { cpu: true, unsloth: false, python: "/p" }],
  ])("is %s", (_, config, cuda, wanted) => {
    expect(pythonFor(config, cuda, say)).toEqual({ onProgress: say, torchIndex: undefined, ...wanted });
  });
});
