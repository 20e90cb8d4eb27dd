import { describe, expect, it } from "vitest";
import { rateOfStep, risingRateText } from "../../src/core/train/schedule.js";

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

describe("the learning rate of a run that goes on", () => {
  const schedule = { learningRate: 1e-3, finalLearningRate: 3e-4, warmup: 2 };
  const standing = (step: number, of: number) => ({
    ...{ name: "mail", step, rate: rateOfStep(schedule, step, of), checkpoint: `runs/mail/checkpoints/${step}` },
  });

  it("is said to rise again with more steps, and how it is kept", () => {
    expect(risingRateText(schedule, 20, standing(10, 10))).toBe(
      "warning: the learning rate falls over all 20 steps, so it rises again: from 0.0003 in step 10 to 0.000632 in step 11, and down to 0.0003 in step 20.\n" +
        "To keep 0.0003, go on in a run of its own, with this one's other options: yarn train --run mail-on --fork runs/mail/checkpoints/10 --steps 10 --learning-rate 0.0003 --final-learning-rate 0.0003 --warmup 0",
    );
    // Also from the middle of its line.
    expect(risingRateText(schedule, 40, standing(8, 10))).toMatch(/from 0.000456 in step 8 to 0.000856 in step 9,/);
  });

  it("is not spoken of where it goes on falling, stays, rises in the warm-up, or nothing is left", () => {
    expect(risingRateText(schedule, 10, standing(5, 10))).toBeUndefined();
    expect(risingRateText(schedule, 10, standing(10, 10))).toBeUndefined();
    expect(risingRateText(schedule, 20, standing(2, 10))).toBeUndefined();
    const level = { ...schedule, finalLearningRate: 1e-3 };
    const rising = { ...schedule, finalLearningRate: 1e-2 };
    expect(risingRateText(rising, 20, { ...standing(10, 10), rate: 5e-3 })).toBeUndefined();
    expect(risingRateText(level, 20, { ...standing(10, 10), rate: 1e-3 })).toBeUndefined();
  });
});
