/** Which experiments `yarn learning` makes. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { baseOf } from "../../bench/learning/bases.js";
import { commandsOf, experiments } from "../../bench/learning/experiments.js";
import { packageRoot } from "../../src/util/paths.js";

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

it("gives every run from the untaught base its settings, each option once, and a control's own in their place", () => {
  const base = baseOf("untaught");
  const made = experiments([1], [2], 5, base);
  const settings = made.map(({ flags }) => {
    const names = flags.filter((_, index) => index % 2 === 0);
    expect(new Set(names).size).toBe(names.length);
    return Object.fromEntries(names.map((name, index) => [name, flags[2 * index + 1]]));
  });
  const [seed, coins, unmoved] = settings;
  expect(seed).toEqual({ ...base.settings, "--seed": "1", "--steps": "5" });
  expect(coins).toEqual({ ...base.settings, "--control": "random-reward", "--seed": "2", "--steps": "5" });
  const rates = { "--learning-rate": "0", "--final-learning-rate": "0" };
  expect(unmoved).toEqual({ ...base.settings, ...rates, "--steps": "5" });

  for (const [train, evaluate, ...more] of made.map((one) => commandsOf(one, 200))) {
    expect(train).toContain(`yarn train --model ${base.model} `);
    expect(evaluate).toBe("yarn eval --checkpoint base,latest --n 200 --fresh");
    expect(more).toEqual([]);
  }
  expect(() => baseOf("taught")).toThrow("there is no base taught; there are tiny, untaught, word-sums");
});

it("trains and evaluates the base of word sums on its own task, without a mailbox", () => {
  const base = baseOf("word-sums");
  const [seed, coins] = experiments([1], [2], undefined, base);
  if (!seed || !coins) throw new Error("two experiments are missing");
  for (const [experiment, own] of [
    [seed, "--seed 1"],
    [coins, "--control random-reward --seed 2"],
  ] as const) {
    const [train, evaluate, ...more] = commandsOf(experiment, 200);
    expect(train).toMatch(
      /^yarn train --task examples\/word-sums\.ts --model models\/word-sums\/word-sums\.gguf --set scenarios=2000 --max-turns 4 /,
    );
    expect(train).toContain(own);
    expect(evaluate).toBe("yarn eval --checkpoint base,latest --n 200 --fresh");
    expect(more).toEqual([]);
  }
  for (const path of [base.model, base.task as string]) expect(existsSync(join(packageRoot, path))).toBe(true);
});
