/** How long `yarn start` says that it takes. */
import { expect, it } from "vitest";
import { sizedDefaults } from "../../src/core/config/config.js";
import { secondsOfRun } from "../../src/machine/plan/estimate.js";

const demo = sizedDefaults(4e6);
// Tokens a second at which the constants of an older base said five minutes, where it took 3 min 4 s.
const SPEED = 3_900;

it("says three minutes where the demo took three", () => {
  expect(Math.round(secondsOfRun(demo, 400, SPEED) / 60)).toBe(3);
});

it("grows with what is played and learnt, and not with a machine's speed", () => {
  const seconds = secondsOfRun(demo, 400, SPEED);
  expect(secondsOfRun({ ...demo, steps: 2 * demo.steps }, 400, SPEED)).toBeGreaterThan(1.7 * seconds);
  expect(secondsOfRun(demo, 800, SPEED)).toBeGreaterThan(seconds);
  expect(secondsOfRun({ ...demo, validateEvery: 5 }, 400, SPEED)).toBeGreaterThan(seconds);
  expect(secondsOfRun(demo, 400, 2 * SPEED)).toBeLessThan(0.6 * seconds);
});
