/** The learning rate by a second path: it is that of the step, whatever the schedule, and no other step's. */
import { expect, it } from "vitest";
import { rateOfStep } from "../../src/core/train/schedule.js";
import { checkRate } from "../../src/guards/asked.js";

const schedules = [
  { learningRate: 5e-4, finalLearningRate: 5e-4, warmup: 0, steps: 6 },
  { learningRate: 5e-4, finalLearningRate: 1e-4, warmup: 0, steps: 6 },
  { learningRate: 5e-4, finalLearningRate: 1e-5, warmup: 3, steps: 9 },
  { learningRate: 2e-5, finalLearningRate: 0, warmup: 1, steps: 1 },
];

it.each(schedules)(
  "takes the rate of each step of $steps from $learningRate to $finalLearningRate, warmup $warmup",
  (schedule) => {
    // A program may make more steps than it said.
    for (let step = 1; step <= schedule.steps + 2; step++) {
      expect(checkRate(rateOfStep(schedule, step, schedule.steps), step - 1, schedule)).toBeUndefined();
    }
  },
);

it("refuses the rate of another step, and a schedule that begins again", () => {
  const falling = { learningRate: 5e-4, finalLearningRate: 1e-4, warmup: 0, steps: 3 };
  expect(checkRate(rateOfStep(falling, 3, 3), 1, falling)).toMatch(
    "the learning rate of step 2 is 0.0001, and by the schedule of 3 steps it is 0.0003; the step was not taken",
  );
  expect(checkRate(rateOfStep(falling, 1, 3), 2, falling)).toMatch(/step 3 is 0\.0005/);
});
