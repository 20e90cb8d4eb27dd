/** Which experiments `yarn learning` makes. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { baseOf } from "../../bench/learning/bases.js";
import {
  commandsOf,
  type Evaluated,
  experiments,
  isControl,
  type Kind,
  type Outcome,
} from "../../bench/learning/experiments.js";
import { tablesOf } from "../../bench/learning/tables.js";
import { packageRoot } from "../../src/core/util/paths.js";

it("runs the seeds and the coins that are asked for, all of the same length", () => {
  const made = experiments(baseOf("tiny"), { seeds: [1, 2], success: [3], coins: [5] }, 8);
  expect(made.map(({ name, kind }) => [name, isControl(kind)])).toEqual([
    ["seed 1", false],
    ["seed 2", false],
    ["success 3", false],
    ["coins 5", true],
  ]);
  for (const { flags } of made) expect(flags.slice(-2)).toEqual(["--steps", "8"]);
  const stop = ["--on-tool-error", "stop"];
  expect(made[2]?.flags).toEqual([...stop, "--reward", "success", "--seed", "3", "--steps", "8"]);
  expect(made[3]?.flags).toEqual([...stop, "--control", "random-reward", "--seed", "5", "--steps", "8"]);
});

it("gives every run of the tiny model its settings, each option once, and a control's own in their place", () => {
  const base = baseOf("tiny");
  const made = experiments(base, { seeds: [1], success: [], coins: [2] }, 5);
  const settings = made.map(({ flags }) => {
    const names = flags.filter((_, index) => index % 2 === 0);
    expect(new Set(names).size).toBe(names.length);
    return Object.fromEntries(names.map((name, index) => [name, flags[2 * index + 1]]));
  });
  const [seed, coins] = settings;
  expect(seed).toEqual({ ...base.settings, "--seed": "1", "--steps": "5" });
  expect(coins).toEqual({ ...base.settings, "--control": "random-reward", "--seed": "2", "--steps": "5" });
  expect(experiments(base).map(({ name }) => name)).toEqual(
    ["seed", "success", "coins"].flatMap((kind) => [1, 2, 3, 4, 5].map((seed) => `${kind} ${seed}`)),
  );

  for (const [train, evaluate, ...more] of made.map((one) => commandsOf(one, 200))) {
    expect(train).toContain(`yarn train --model ${base.model} `);
    expect(evaluate).toBe("yarn eval --checkpoint base,latest --n 200 --fresh");
    expect(more).toEqual([
      "yarn eval --checkpoint base,latest --n 200 --fresh --temperature 0",
      "yarn build-db --db reserved.db --names reserved --mailboxes 60",
      "yarn eval --checkpoint base,latest --n 200 --db reserved.db",
      "yarn eval --checkpoint base,latest --n 200 --db reserved.db --temperature 0",
    ]);
  }
  expect(() => baseOf("untaught")).toThrow("there is no base untaught; there are tiny, smollm2");
});

it("trains and evaluates SmolLM2 on its own task, without a mailbox", () => {
  const base = baseOf("smollm2");
  const [seed, coins] = experiments(base, { seeds: [1], success: [], coins: [2] });
  if (!seed || !coins) throw new Error("two experiments are missing");
  for (const [experiment, own] of [
    [seed, "--seed 1"],
    [coins, "--control random-reward --seed 2"],
  ] as const) {
    const [train, evaluate, ...more] = commandsOf(experiment, 200);
    expect(train).toMatch(/^yarn train --task examples\/what-kind\.ts --model smollm2-135m-q4_1 --weights f16 /);
    expect(train).toContain(own);
    expect(evaluate).toBe("yarn eval --checkpoint base,latest --n 200 --fresh");
    expect(more).toEqual([]);
  }
  expect(existsSync(join(packageRoot, base.task as string))).toBe(true);
});

it("begins the email task of SmolLM2 by imitation, and evaluates what that made too", () => {
  const [seed, coins] = experiments(baseOf("smollm2-email"));
  if (!seed || !coins) throw new Error("two experiments are missing");
  const [play, learn, train, evaluate, ...more] = commandsOf(seed, 200);
  expect(play).toBe("yarn rollout --expert --split train --n 160 --group-size 1 --out expert.jsonl");
  expect(learn).toMatch(/^yarn hone sft expert\.jsonl --model smollm2-135m-q4_1 .* --out imitated$/);
  expect(train).toMatch(/ --seed 1 --fork imitated$/);
  expect(evaluate).toBe("yarn eval --checkpoint base,0,latest --n 200 --fresh");
  expect(commandsOf(coins, 200).at(-1)).toBe("yarn eval --checkpoint 0,latest --n 200 --fresh");
  expect(more).toEqual([]);
});

const evaluated = (success: number, more: Partial<Evaluated> = {}): Evaluated => ({
  checkpoint: "base",
  step: null,
  success,
  low: success - 0.1,
  high: success + 0.1,
  n: 200,
  kinds: {},
  reward: 0,
  turns: 3,
  parts: { read: { mean: 0.5, n: 200 }, grounded: { mean: 0.25, n: 200 } },
  ends: {},
  tool_errors: { malformed: 10, unknown_tool: 1, wrong_arguments: 2 },
  ...more,
});
const outcome = (kind: Kind, name: string, last: number): Outcome => ({
  name,
  kind,
  commands: [],
  seconds: 1,
  mismatch: null,
  validations: [],
  training: [0.1, 0.25],
  phases: {},
  heldOut: [evaluated(0.1), evaluated(last, { tool_errors: {} })],
  greedy: [evaluated(0), evaluated(last)],
  unseenNames: [],
  unseenNamesGreedy: [],
});

it("prints its tables as the documentation has them", () => {
  const outcomes = [outcome("seed", "seed 1", 0.6), outcome("seed", "seed 2", 0.8), outcome("coins", "coins 1", 0.2)];
  const [means, play, runs, steps] = tablesOf(outcomes).map((table) => table.split("\n"));
  expect(means).toEqual([
    "| success | sampled | greedy |",
    "| --- | --- | --- |",
    "| before training | 10.0 % (10.0 to 10.0) | 0.0 % (0.0 to 0.0) |",
    "| the task's reward, 2 seeds | 70.0 % (60.0 to 80.0) | 70.0 % (60.0 to 80.0) |",
    "| control: random rewards, 1 seed | 20.0 % | 20.0 % |",
  ]);
  expect(play?.[2]).toBe("| before training | 50.0 % (50.0 to 50.0) | 50.0 % of 200 | 5.0 | 1.5 |");
  expect(play?.[3]).toMatch(/ \| 0.0 \| 0.0 \|$/);
  expect(runs?.[2]).toBe("| seed 1 | 10.0 % | 60.0 % (50 to 70) | 0.0 % | 60.0 % (50 to 70) |");
  const taught = { ...outcome("seed", "seed 1", 0.6), greedy: [] };
  const trained = evaluated(0.6, { checkpoint: "latest" });
  const imitated = evaluated(0.2, { checkpoint: "0" });
  const [, , begun] = tablesOf([
    { ...taught, heldOut: [evaluated(0.1), imitated, trained] },
    { ...taught, kind: "coins", name: "coins 1", heldOut: [imitated, trained] },
  ]);
  expect(begun?.split("\n")).toEqual([
    "| run | sampled: before | after imitation | after |",
    "| --- | --- | --- | --- |",
    "| seed 1 | 10.0 % | 20.0 % (10 to 30) | 60.0 % (50 to 70) |",
    "| coins 1 | – | 20.0 % (10 to 30) | 60.0 % (50 to 70) |",
  ]);
  expect(steps?.slice(2, 3)).toEqual(["| seed 1 | 10 | 25 |"]);
});
