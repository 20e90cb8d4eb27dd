/** Which experiments `yarn learning` makes. */
import { expect, it } from "vitest";
import { baseOf } from "../../bench/learning/bases.js";
import { commandsOf, experiments } from "../../bench/learning/experiments.js";

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

it("gives every run from the untaught base its settings, and a control's own are stronger", () => {
  const base = baseOf("untaught");
  const made = experiments([1], [2], undefined, base);
  for (const { flags } of made) expect(flags.slice(0, base.flags.length)).toEqual(base.flags);
  expect(made.at(-1)?.flags.slice(base.flags.length)).toEqual(["--learning-rate", "0"]);
  const commands = made.map((one) => commandsOf(one, 200));
  for (const [train, evaluate, ...more] of commands) {
    expect(train).toContain(`yarn train --model ${base.model} `);
    expect(evaluate).toBe("yarn eval --checkpoint base,latest --n 200 --fresh");
    expect(more).toEqual([]);
  }
  expect(() => baseOf("taught")).toThrow("there is no base taught; there are tiny, untaught");
});
