import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { ExpertSession } from "../../src/rollout/expert-session.js";
import { playRollout } from "../../src/rollout/rollout.js";
import { loadTask } from "../../src/tasks/load.js";
import type { AnyTask, Scenario } from "../../src/tasks/task.js";
import { packageRoot } from "../../src/util/paths.js";
import { Random } from "../../src/util/random.js";
import { limits } from "./limits.js";

interface WordSum extends Scenario {
  readonly start: number;
  readonly steps: readonly { verb: string; operator: string; by: number }[];
}

const OPERATORS = ["add", "subtract", "multiply", "divide"];

describe("the example of sums in words", () => {
  let task: AnyTask;
  let sums: readonly WordSum[];

  beforeAll(async () => {
    task = await loadTask(join(packageRoot, "examples/word-sums.ts"));
    sums = (await task.scenarios({ seed: 7, scenarios: 1200 })) as readonly WordSum[];
  });

  const expert = (scenario: WordSum, mistakes: number) => {
    const session = new ExpertSession(task, scenario, new Random("expert", scenario.id), { mistakes });
    return playRollout({
      task,
      scenario,
      env: undefined,
      session,
      limits: { ...limits, maxTurns: 4 },
      signal: new AbortController().signal,
    });
  };
  const result = (operator: string, a: number, b: number) => {
    const calculate = task.tools.find(({ name }) => name === "calculate");
    if (!calculate) throw new Error("there is no calculator");
    const context = { scenario: sums[0] as Scenario, env: undefined, signal: new AbortController().signal };
    return (calculate.execute({ operator, a, b }, context) as { result: number }).result;
  };

  it("has the same sums for the same seed, and other ones for another", async () => {
    expect(await task.scenarios({ seed: 7, scenarios: 1200 })).toEqual(sums);
    expect(await task.scenarios({ seed: 8, scenarios: 1200 })).not.toEqual(sums);
    expect(new Set(sums.map(({ kind }) => kind))).toEqual(new Set(["one verb", "two verbs"]));
    expect(new Set((await task.scenarios({ seed: 7, steps: 1 })).map(({ kind }) => kind))).toEqual(
      new Set(["one verb"]),
    );
  });

  it("begins no test question with numbers of a train question of any seed", async () => {
    const others = (await task.scenarios({ seed: 9001, scenarios: 3000 })) as readonly WordSum[];
    const first = ({ start, steps: [step] }: WordSum) => `${start} ${step?.by}`;
    const trained = new Set([...sums, ...others].filter(({ split }) => split === "train").map(first));
    const tests = sums.filter(({ split }) => split === "test");
    expect(tests).toHaveLength(240);
    for (const sum of tests) expect(trained).not.toContain(first(sum));
  });

  it("asks with three verbs for each operation, as often with one as with another, and with the stated numbers", () => {
    const verbs = new Map<string, Set<string>>();
    const steps = sums.flatMap((sum) => sum.steps);
    for (const { verb, operator } of steps) verbs.set(operator, (verbs.get(operator) ?? new Set()).add(verb));
    expect([...verbs.keys()].sort()).toEqual([...OPERATORS].sort());
    expect(new Set([...verbs.values()].flatMap((of) => [...of])).size).toBe(12);
    for (const [operator, of] of verbs) {
      expect(of.size).toBe(3);
      const share = steps.filter((step) => step.operator === operator).length / steps.length;
      // Five standard errors of some 1,800 steps.
      expect(Math.abs(share - 0.25)).toBeLessThan(0.051);
    }
    for (const { question, start, steps } of sums) {
      const numbers = [start, ...steps.map(({ by }) => by)];
      expect(question.match(/\d+/g)?.map(Number)).toEqual(numbers);
      for (const { verb, by } of steps) expect(question).toContain(` ${verb} ${by} `.trimEnd());
    }
  });

  it("lets no number tell the operation, and no other operations have the right result", () => {
    for (const { start, steps } of sums) {
      const [first, second] = steps;
      if (!first) throw new Error("no step");
      // All of them can be divided.
      expect(start % first.by).toBe(0);
      const after = OPERATORS.map((operator) => result(operator, start, first.by));
      const middle = result(first.operator, start, first.by);
      if (second) expect(middle % second.by).toBe(0);
      const ends = second ? after.flatMap((value) => OPERATORS.map((name) => result(name, value, second.by))) : after;
      const right = second ? result(second.operator, middle, second.by) : middle;
      expect(ends.filter((value) => value === right)).toHaveLength(1);
    }
  });

  it("is solved by its expert every time, who writes each verb with its operation", async () => {
    for (const sum of sums.slice(0, 100)) {
      const { end, reward, messages, turns } = await expert(sum, 0);
      expect({ end, reward, turns }).toMatchObject({
        end: "answered",
        reward: { reward: 1 },
        turns: sum.steps.length + 1,
      });
      const said = messages.flatMap(({ role, content }) => (role === "assistant" && content ? [content] : []));
      expect(said).toEqual(sum.steps.map(({ verb, operator }) => `${verb}=${operator}`));
    }
  });

  it("pays a player who draws the operations by luck alone, and half of the way not at all", async () => {
    const solved = { "one verb": [0, 0], "two verbs": [0, 0] } as Record<string, [number, number]>;
    for (const sum of sums) {
      const { reward, calls } = await expert(sum, 1);
      const operators = calls.filter(({ name }) => name === "calculate").map((call) => call.arguments.operator);
      const right = sum.steps.every(({ operator }, at) => operators[at] === operator);
      expect(reward).toEqual({ reward: right ? 1 : 0, success: right, parts: { right: right ? 1 : 0 } });
      const counts = solved[sum.kind as string] as [number, number];
      counts[0] += right ? 1 : 0;
      counts[1]++;
    }
    for (const [kind, chance] of [
      ["one verb", 1 / 4],
      ["two verbs", 1 / 16],
    ] as const) {
      const [right, n] = solved[kind] as [number, number];
      expect(Math.abs(right / n - chance)).toBeLessThan(5 * Math.sqrt((chance * (1 - chance)) / n));
    }
  });

  it("leaves the remainder of a division out, and tells the model of a division by 0", () => {
    expect(result("divide", 7, 2)).toBe(3);
    expect(result("divide", -7, 2)).toBe(-3);
    expect(Object.is(result("divide", -1, 2), 0)).toBe(true);
    expect(() => result("divide", 7, 0)).toThrow("a number cannot be divided by 0");
  });
});
