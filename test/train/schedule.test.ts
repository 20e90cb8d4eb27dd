import { describe, expect, it } from "vitest";
import { rateOfStep } from "../../src/train/schedule.js";

describe("the learning rate", () => {
  it("falls in a straight line from the first step to the last", () => {
    const schedule = { learningRate: 3e-3, finalLearningRate: 1e-3, warmup: 0 };
    expect([1, 2, 3, 4, 5].map((step) => rateOfStep(schedule, step, 5))).toEqual([3e-3, 2.5e-3, 2e-3, 1.5e-3, 1e-3]);
    expect(rateOfStep(schedule, 1, 1)).toBe(3e-3);
  });

  it("rises over the warm-up", () => {
    const schedule = { learningRate: 1, finalLearningRate: 1, warmup: 3 };
    expect([1, 2, 3, 4, 5].map((step) => rateOfStep(schedule, step, 9))).toEqual([0.25, 0.5, 0.75, 1, 1]);
  });

  it("of nothing stays nothing", () => {
    expect(rateOfStep({ learningRate: 0, finalLearningRate: 0, warmup: 3 }, 2, 9)).toBe(0);
  });
});
