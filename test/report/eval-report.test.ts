import { describe, expect, it } from "vitest";
import { evalText, type NamedEvaluation } from "../../src/report/eval-report.js";

const evaluation = (checkpoint: string, step: number | null, success: number): NamedEvaluation => ({
  checkpoint,
  step,
  n: 100,
  successes: 100 * success,
  success,
  low: success - 0.1,
  high: success + 0.1,
  reward: success / 2,
  turns: 3.25,
  completion_tokens: 107.4,
  parts: { found: { mean: 0.5, n: 100 }, right: { mean: 0.25, n: 60 } },
  ends: { answered: 90, turn_limit: 10 },
  tool_errors: {},
  failures: 0,
});

describe("checkpoints for people", () => {
  it("one is shown in full", () => {
    expect(evalText([evaluation("latest", 12, 0.75)])).toBe(
      [
        "latest (step 12)",
        "  success     75.0 % (95 %: 65.0 to 85.0, n=100)",
        "  reward      0.375 (n=100): found 0.5 (n=100), right 0.25 (n=60)",
        "  turns       3.25, tokens written 107 a rollout",
        "  ends        answered 90, turn_limit 10",
        "  tool errors none",
      ].join("\n"),
    );
  });

  it("several stand side by side first, in the order asked for", () => {
    const lines = evalText([evaluation("base", null, 0.25), evaluation("12", 12, 0.75)]).split("\n");
    expect(lines.slice(0, 3)).toEqual([
      "base (base model)  success 25.0 % (95 %: 15.0 to 35.0, n=100)  reward 0.125",
      "12 (step 12)       success 75.0 % (95 %: 65.0 to 85.0, n=100)  reward 0.375",
      "",
    ]);
  });

  it("one that was asked for by two names is shown in full once", () => {
    const text = evalText([
      evaluation("base", null, 0.25),
      evaluation("best", 12, 0.75),
      evaluation("latest", 12, 0.75),
    ]);
    expect(text.split("\n").slice(0, 3)).toHaveLength(3);
    expect(text).toContain("\nbest (step 12), latest (step 12)\n");
    expect(text.match(/ends {8}/g)).toHaveLength(2);
  });

  it("rollouts that broke down are said to be left out", () => {
    expect(evalText([{ ...evaluation("1", 1, 0.5), failures: 3 }])).toContain(
      "failed      3 rollouts, not counted above",
    );
  });
});
