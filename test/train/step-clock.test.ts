/** The time of each step, by one clock for all of them. */
import { expect, it } from "vitest";
import { StepClock } from "../../src/core/train/step-clock.js";

it("gives every moment to one lap, and to a lap what was measured in it", async () => {
  const clock = new StepClock();
  await clock.measure("update", async () => undefined);
  clock.addChecks(3);
  const later = performance.now() + 1e6;
  const both = clock.read(later).seconds.total;
  const first = clock.lap();
  const second = clock.read(later);
  expect(first.seconds.update).toBeGreaterThan(0);
  expect(first.checks).toBe(3);
  expect(second.seconds).toMatchObject({ update: 0, rollouts: 0 });
  expect(second.checks).toBe(0);
  expect(first.seconds.total + second.seconds.total).toBeCloseTo(both, 6);
});
