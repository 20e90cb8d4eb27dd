import { expect, test } from "vitest";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { countsText, evaluate, kindsText } from "../../src/core/run/evaluation.js";
import { checkpointTitle, evalText, matrixText } from "../../src/insight/report/eval-report.js";
import { pairsOf } from "../../src/insight/report/matrix.js";

function played(kind: string | undefined, success: boolean, end = "answered"): Trajectory {
  return {
    scenario: { id: "s", split: "test", question: "?", ...(kind === undefined ? {} : { kind }) },
    reward: { reward: success ? 1 : 0, success, parts: success ? { cited: 1 } : {} },
    calls: [{ outcome: success ? "ok" : "malformed" }],
    end,
    turns: 3,
    completionTokens: 10,
  } as unknown as Trajectory;
}

test("success is over all rollouts, and by kind over those of the kind", () => {
  const figures = evaluate([played("who", true), played("who", false, "turn_limit"), played("when", true)], 0);
  expect(figures.success).toBeCloseTo(2 / 3);
  expect(figures.kinds).toEqual({ when: { n: 1, successes: 1 }, who: { n: 2, successes: 1 } });
  expect(kindsText(figures.kinds)).toBe("when 1/1, who 1/2");
  expect(figures.parts.cited).toEqual({ mean: 1, n: 2 });
  expect(figures.tool_errors).toEqual({ malformed: 1 });
});

test("scenarios without kinds have none", () => {
  expect(evaluate([played(undefined, true)], 0).kinds).toEqual({});
});

test("checkpoints stand in columns; what one of them lacks is 0 or a dash", () => {
  const base = { title: checkpointTitle("base", null), ...evaluate([played("who", false, "turn_limit")], 0) };
  const best = { title: checkpointTitle("best", 30), ...evaluate([played("when", true)], 2) };
  const lines = evalText([base, best]).split("\n");
  const row = (name: string) =>
    lines
      .find((line) => line.trim().startsWith(name))
      ?.trim()
      .split(/ {2,}/);
  expect(row("base")).toEqual(["base", "best (step 30)"]);
  expect(row("success")).toEqual(["success", "0.0 %", "100.0 %"]);
  expect(row("who")).toEqual(["who", "0 of 1", "–"]);
  expect(row("turn_limit")).toEqual(["turn_limit", "1", "0"]);
  expect(row("malformed")).toEqual(["malformed", "1", "0"]);
  expect(row("broken down, not counted")).toEqual(["broken down, not counted", "0", "2"]);
});

test("of no rollouts no share, no mean and no difference is shown", () => {
  const effort = { rollouts: 0, promptTokens: 0, completionTokens: 0, cost: null, seconds: 1 };
  const result = { figures: evaluate([], 3), effort, outcomes: [] };
  // What JSON has: not a number is none there.
  expect(result.figures).toMatchObject({ success: 0, reward: 0, turns: 0, completion_tokens: 0 });
  const columns = ["a", "b"].map((name) => {
    return { name, title: name, kind: "model", step: null, of: name, problem: null, result } as const;
  });
  const pairs = pairsOf(columns, 1);
  const lines = matrixText({ task: "t", split: "test", seed: 1, scenarios: [], columns, pairs }).split("\n");
  const figures = ["success", "  95 % interval", "reward", "turns", "tokens written", "tokens given"];
  const shown = figures.map((name) => lines.find((line) => line.startsWith(`${name} `))?.match(/\S+ +\S+$/)?.[0]);
  expect(shown.map((cells) => cells?.split(/ +/))).toEqual(figures.map(() => ["–", "–"]));
  expect(lines.join("\n")).not.toContain("differences");
});

test("a price that is not known is one of an API: what plays here has no row of costs alone", () => {
  const effort = { rollouts: 1, promptTokens: 10, completionTokens: 10, cost: null, seconds: 1 };
  const figures = evaluate([played("who", true)], 0);
  const local = { title: "best", kind: "checkpoint" as const, ...figures, effort };
  const api = { title: "api", kind: "api" as const, ...figures, effort };
  expect(evalText([local])).not.toMatch(/^cost/m);
  expect(evalText([local])).toMatch(/^tokens given/m);
  expect(evalText([local, api])).toMatch(/^cost +– +unknown$/m);
  expect(evalText([{ ...local, effort: { ...effort, cost: 0.5 } }])).toMatch(/^cost +\$0.5/m);
});

test("counts are shown by name, in their order, and as nothing when there are none", () => {
  expect(countsText({ timeout: 2, not_json: 1 })).toBe("timeout 2, not_json 1");
  expect(countsText({})).toBe("");
});
