import { describe, expect, it } from "vitest";
import type { StepMetricsRow } from "../../src/core/run/records.js";
import { stepMetricsRow } from "../../src/core/train/metrics.js";
import { checkProgress, STEPS_NOT_FINITE, STEPS_WITHOUT_SPREAD } from "../../src/guards/progress.js";

const row = (change: Partial<StepMetricsRow>): StepMetricsRow => ({
  ...stepMetricsRow([], [], 0.1, null),
  rollouts: 8,
  success: 0,
  skipped: null,
  groups_trainable: 1,
  ...change,
});
const many = (count: number, change: Partial<StepMetricsRow>) => Array.from({ length: count }, () => row(change));

describe("steps that change nothing", () => {
  it("are borne for a while, then explained", () => {
    const flat = { skipped: "no_spread" } as const;
    expect(checkProgress(many(STEPS_WITHOUT_SPREAD - 1, flat))).toBeUndefined();
    expect(checkProgress([row({}), ...many(STEPS_WITHOUT_SPREAD - 1, flat)])).toBeUndefined();
    expect(checkProgress(many(STEPS_WITHOUT_SPREAD, flat))).toMatch(
      "Success was 0.0 % (n=80); the scenarios are too hard",
    );
    expect(checkProgress(many(STEPS_WITHOUT_SPREAD, { ...flat, success: 1 }))).toMatch("the model solves them all");
    expect(checkProgress(many(STEPS_WITHOUT_SPREAD, { ...flat, success: 0.5 }))).toMatch("raise --group-size");
    // Of rollouts, whose number differs from step to step.
    const uneven = [...many(STEPS_WITHOUT_SPREAD - 1, flat), row({ ...flat, rollouts: 72, success: 1 })];
    expect(checkProgress(uneven)).toMatch("Success was 50.0 % (n=144); every scenario is either");
    // What was not finite is between them.
    expect(checkProgress([...many(6, flat), row({ skipped: "loss" }), ...many(6, flat)])).toBeUndefined();
  });

  it("because every rollout earned the same are told from scenarios that are too hard", () => {
    const flat = many(STEPS_WITHOUT_SPREAD, { skipped: "no_spread" });
    const earned = (reward: number) =>
      checkProgress([row({}), ...flat], (count) =>
        count === STEPS_WITHOUT_SPREAD ? { reward, task: "mine.ts" } : undefined,
      );
    expect(earned(0.5)).toMatch(
      /^every rollout of the last 10 steps earned 0\.5: the reward does not depend on the answer\.\nRun `.*check mine\.ts`/,
    );
    for (const reward of [0, 1]) {
      expect(earned(reward)).toMatch(/^nothing was learnt in 10 steps in a row: .* too hard/);
    }
  });

  it("are told from a model that training has broken", () => {
    const flat = many(STEPS_WITHOUT_SPREAD, { skipped: "no_spread" });
    expect(checkProgress([row({ success: 0.75 }), ...flat])).toMatch(
      "it had been 75.0 % in an earlier step: the updates have broken the model, start again from an earlier checkpoint",
    );
    expect(checkProgress([row({ success: 0.1 }), ...flat])).toMatch("too hard");
    expect(checkProgress([...flat.slice(1), row({ skipped: "no_spread", success: 0.25 })])).toMatch("too hard");
    const half = many(STEPS_WITHOUT_SPREAD, { skipped: "no_spread", success: 0.5 });
    expect(checkProgress([row({ success: 0.75 }), ...half])).toMatch("raise --group-size");
  });

  it("but for the pull of --kl count as such", () => {
    const pulled = many(STEPS_WITHOUT_SPREAD, { groups_trainable: 0, updates: 1 });
    expect(checkProgress(pulled.slice(1))).toBeUndefined();
    expect(checkProgress(pulled)).toMatch(/nothing was learnt in 10 steps in a row: .* too hard/);
  });

  it("because what differs was ended by a limit and masked say so", () => {
    const cut = many(STEPS_WITHOUT_SPREAD, { skipped: "truncated" });
    expect(checkProgress(cut.slice(1))).toBeUndefined();
    expect(checkProgress(cut)).toMatch(
      "in each group all rollouts that are learnt from got the same reward, and only differences teach. Success was 0.0 % (n=80); what differed had been ended by a limit and was masked: raise --max-tokens, --max-turns or --context, or leave --mask-truncated out",
    );
  });

  it("do not stop a run whose last step learnt something", () => {
    expect(checkProgress([...many(50, { skipped: "no_spread" }), row({})])).toBeUndefined();
    expect(checkProgress([])).toBeUndefined();
  });

  it("for numbers that are not finite stop it sooner", () => {
    const broken = { skipped: "gradient" } as const;
    expect(checkProgress(many(STEPS_NOT_FINITE - 1, broken))).toBeUndefined();
    expect(checkProgress([...many(STEPS_NOT_FINITE - 1, broken), row({ skipped: "loss" })])).toMatch(
      "the loss was not a finite number in 3 steps in a row",
    );
  });

  it("are counted together when a judge and a tool fail by turns", () => {
    const lost = row({ skipped: "unrewarded", groups_no_verdict: { timeout: 2 } });
    const broken = row({ skipped: "broken_off", rollouts_broken_off: 7, broken_off: { tool_failure: 7 } });
    expect(checkProgress([lost, broken])).toBeUndefined();
    expect(checkProgress([lost, broken, lost])).toMatch(
      /^no group had a reward in 3 steps in a row\.\nIn some the judge gave no verdict .*\(the last: timeout 2\).*\nIn others no group had two rollouts to compare, .*\(7 of 24 rollouts: tool_failure 7\)/s,
    );
    expect(checkProgress([lost, lost, lost])).toMatch("no verdict that can be used in 3 steps in a row");
    const flat = row({ skipped: "no_spread" });
    const mixed = Array.from({ length: STEPS_WITHOUT_SPREAD }, (_, i) => (i % 3 === 0 ? lost : flat));
    expect(checkProgress(mixed)).toMatch("nothing was learnt in 10 steps in a row");
  });
});
