/** Which experiments `yarn learning` makes. */
import { expect, it } from "vitest";
import { experiments } from "../../bench/learning/experiments.js";

it("runs the seeds and the coins that are asked for, all of the same length", () => {
  const made = experiments([1, 2], [5], 8);
  expect(made.map(({ name, control }) => [name, control])).toEqual([
    ["seed 1", false],
    ["seed 2", false],
    ["coins 5", true],
    ["learning rate 0", true],
  ]);
  for (const { flags } of made) expect(flags.slice(-2)).toEqual(["--steps", "8"]);
  expect(made[2]?.flags).toEqual(["--control", "random-reward", "--seed", "5", "--steps", "8"]);
});
