import { describe, expect, it } from "vitest";
import type { StepMetricsRow } from "../../src/run/records.js";
import { checkProgress, STEPS_NOT_FINITE, STEPS_WITHOUT_SPREAD } from "../../src/train/guards.js";
import { stepMetricsRow } from "../../src/train/metrics.js";

const row = (change: Partial<StepMetricsRow>): StepMetricsRow => ({
  ...stepMetricsRow([], [], 0.1, null),
  rollouts: 8,
  success: 0,
  skipped: null,
  ...change,
});
const many = (count: number, change: Partial<StepMetricsRow>) => Array.from({ length: count }, () => row(change));

describe("steps that change nothing", () => {
  it("are borne for a while, then explained", () => {
    const flat = { skipped: "no_spread" } as const;
    expect(() => checkProgress(many(STEPS_WITHOUT_SPREAD - 1, flat))).not.toThrow();
    expect(() => checkProgress([row({}), ...many(STEPS_WITHOUT_SPREAD - 1, flat)])).not.toThrow();
    expect(() => checkProgress(many(STEPS_WITHOUT_SPREAD, flat))).toThrow(
      "Success was 0.0 % (n=80); the scenarios are too hard",
    );
    expect(() => checkProgress(many(STEPS_WITHOUT_SPREAD, { ...flat, success: 1 }))).toThrow(
      "the model solves them all",
    );
    expect(() => checkProgress(many(STEPS_WITHOUT_SPREAD, { ...flat, success: 0.5 }))).toThrow("raise --group");
  });

  it("are told from a model that training has broken", () => {
    const flat = many(STEPS_WITHOUT_SPREAD, { skipped: "no_spread" });
    expect(() => checkProgress([row({ success: 0.75 }), ...flat])).toThrow(
      "it had been 75.0 % in an earlier step: the updates have broken the model, start again from an earlier checkpoint",
    );
    expect(() => checkProgress([row({ success: 0.1 }), ...flat])).toThrow("too hard");
  });

  it("do not stop a run whose last step learnt something", () => {
    expect(() => checkProgress([...many(50, { skipped: "no_spread" }), row({})])).not.toThrow();
    expect(() => checkProgress([])).not.toThrow();
  });

  it("for numbers that are not finite stop it sooner", () => {
    const broken = { skipped: "gradient" } as const;
    expect(() => checkProgress(many(STEPS_NOT_FINITE - 1, broken))).not.toThrow();
    expect(() => checkProgress([...many(STEPS_NOT_FINITE - 1, broken), row({ skipped: "loss" })])).toThrow(
      "the loss was not a finite number in 3 steps in a row",
    );
  });
});
