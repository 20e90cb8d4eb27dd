import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { playRollout } from "../../src/core/rollout/rollout.js";
import type { Session } from "../../src/core/rollout/session.js";
import type { AnyTask, Scenario } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";
import { ExpertSession } from "../../src/hone/expert-session.js";
import { loadTask } from "../../src/scenarios/load.js";
import { limits } from "./limits.js";

describe("the arithmetic example", () => {
  let task: AnyTask;
  let scenarios: readonly Scenario[];

  beforeAll(async () => {
    task = await loadTask(join(packageRoot, "examples/arithmetic.ts"));
    scenarios = await task.scenarios({ seed: 7 });
  });

  const play = (session: Session, scenario: Scenario) =>
    playRollout({ task, scenario, env: undefined, session, limits, signal: new AbortController().signal });
  const expert = (scenario: Scenario, mistakes: number) =>
    play(new ExpertSession(task, scenario, new Random("expert", scenario.id), { mistakes }), scenario);

  it("has the same scenarios for the same seed, in two splits", async () => {
    expect(await task.scenarios({ seed: 7 })).toEqual(scenarios);
    expect(await task.scenarios({ seed: 8 })).not.toEqual(scenarios);
    expect(scenarios.filter(({ split }) => split === "test")).toHaveLength(100);
    expect(new Set(scenarios.map(({ id }) => id)).size).toBe(500);
  });

  it("is solved by its expert every time, with the calculator alone", async () => {
    for (const scenario of scenarios.slice(0, 100)) {
      const { end, reward } = await expert(scenario, 0);
      expect({ end, reward }).toMatchObject({ end: "answered", reward: { reward: 1, success: true } });
    }
  });

  it("is worth less, yet something, when the last step is forgotten", async () => {
    for (const scenario of scenarios.slice(0, 20)) {
      const { reward } = await expert(scenario, 1);
      expect(reward.success).toBe(false);
      expect(reward.reward).toBeGreaterThan(0.1);
      expect(reward.reward).toBeLessThan(0.3);
    }
  });

  it("asks what its numbers say", () => {
    for (const scenario of scenarios) {
      const text = scenario.question.slice("What is ".length, -1);
      const { start, steps } = scenario as Scenario & { start: number; steps: { operator: string; by: number }[] };
      const signs = { add: "+", subtract: "−", multiply: "×" } as Record<string, string>;
      const expected = steps.reduce((so, { operator, by }) => `${so} ${signs[operator]} ${by}`, String(start));
      expect(text.replace(/[()]/g, "")).toBe(expected);
    }
  });

  it("tells the model of a division by 0", () => {
    const calculate = task.tools.find(({ name }) => name === "calculate");
    const context = { scenario: scenarios[0] as Scenario, env: undefined, signal: new AbortController().signal };
    expect(() => calculate?.execute({ operator: "divide", a: 1, b: 0 }, context)).toThrow(
      expect.objectContaining({ name: "ToolError", message: "a number cannot be divided by 0" }),
    );
    expect(calculate?.execute({ operator: "divide", a: 1, b: 4 }, context)).toEqual({ result: 0.25 });
  });

  it("charges needless turns", async () => {
    const scenario = scenarios[0] as Scenario;
    const { messages, calls, answer, end, turns } = await expert(scenario, 0);
    const rewardOf = async (more: number) =>
      (await task.reward({ messages, calls, answer, end, turns: turns + more, maxTurns: 10 }, scenario, undefined))
        .reward;
    expect(await rewardOf(0)).toBe(1);
    expect(await rewardOf(2)).toBeCloseTo(0.98, 10);
  });
});
