/** Scenarios that teach nothing sit out, and come back (--rest). */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RewardGroup } from "../../src/core/reward/reward.js";
import type { GroupOutcome } from "../../src/core/run/records.js";
import type { Run } from "../../src/core/run/run.js";
import type { Scenario } from "../../src/core/task/task.js";
import { chosenScenarios } from "../../src/trainer/difficulty.js";
import { ScenarioSampler } from "../../src/trainer/sampler.js";
import { openFake, partsOf, train } from "./support/fakes.js";

const TRAIN = 12;
const scenarios: readonly Scenario[] = Array.from({ length: TRAIN + 2 }, (_, i) => ({
  id: `s${i}`,
  split: i < TRAIN ? "train" : "test",
  question: `What is ${i}?`,
}));
const all = new ScenarioSampler(scenarios, { groupsPerStep: 3, seed: 3 });
const ids = (chosen: readonly Scenario[]) => chosen.map(({ id }) => id);

/** The steps of a run in which the groups of `dull` scenarios are flat; each is forgotten by a later process's sampler. */
function go(steps: number, rest: number, dull: ReadonlySet<string>, aside: readonly string[] = [], staleness = 0) {
  const played: GroupOutcome[] = [];
  const measured = aside.map((scenario) => ({ scenario, n: 4, successes: 4 }));
  const settings = { rest, staleness, difficulty: aside.length > 0 ? "0.1..0.9" : undefined };
  const sampler = chosenScenarios(all, settings, measured, () => played);
  return Array.from({ length: steps }, (_, i) => {
    const own = ids(sampler.next(i + 1, [], 0));
    const resting = sampler.resting(i + 1);
    // A process that begins here chooses the same.
    const committed = played.filter(({ step }) => step <= i - staleness);
    const later = chosenScenarios(all, settings, measured, () => committed);
    expect(ids(later.next(i + 1, [], 0))).toEqual(own);
    expect(new Set(own).size).toBe(3);
    for (const scenario of own) played.push({ step: i + 1, scenario, hasSignal: !dull.has(scenario) });
    return { own, resting };
  });
}

describe("--rest", () => {
  it("is off at 0: every epoch has every scenario", () => {
    const off = go(8, 0, new Set(ids(scenarios)));
    expect(off.map(({ own }) => own)).toEqual(Array.from({ length: 8 }, (_, i) => ids(all.next(i + 1, [], 0))));
    expect(off.map(({ resting }) => resting)).toEqual(Array(8).fill(0));
  });

  it("lets flat scenarios sit out as many epochs, and plays them again after that", () => {
    // Half of the scenarios: an epoch has four steps with all of them, and two without those.
    const dull = new Set(["s0", "s1", "s2", "s3", "s4", "s5"]);
    const steps = go(4 + 2 + 2 + 4, 2, dull);
    const inSteps = (from: number, to: number) => steps.slice(from, to).flatMap(({ own }) => own);
    const train = ids(scenarios).slice(0, TRAIN);
    expect(inSteps(0, 4).sort()).toEqual(train.sort());
    for (const from of [4, 6]) {
      expect(inSteps(from, from + 2).sort()).toEqual(train.filter((id) => !dull.has(id)).sort());
    }
    expect(inSteps(8, 12).sort()).toEqual(train.sort());
    expect(steps[0]?.resting).toBe(0);
    expect(steps.slice(4, 8).map(({ resting }) => resting)).toEqual([6, 6, 6, 6]);
    expect(steps[8]?.resting).toBe(0);
  });

  it("wakes those whose rest ends first where a step would lack scenarios", () => {
    const steps = go(12, 5, new Set(ids(scenarios)));
    // All rest after the first epoch; the first to be played were the first to rest.
    const first = steps.slice(0, 4).map(({ own }) => [...own].sort());
    const woken = steps.slice(4, 8).map(({ own }) => own);
    expect(new Set(woken.flat()).size).toBe(TRAIN);
    expect(first.flat().sort()).toEqual(woken.flat().sort());
    expect(steps.slice(4).map(({ resting }) => resting)).toEqual(Array(8).fill(TRAIN - 3));
  });

  it("lets scenarios outside --difficulty rest from the start, instead of setting them aside for good", () => {
    const aside = ["s0", "s1", "s2"];
    const steps = go(3 + 4, 1, new Set(), aside);
    const before = steps.slice(0, 3).flatMap(({ own }) => own);
    expect(before.filter((id) => aside.includes(id))).toEqual([]);
    expect(steps.slice(3).flatMap(({ own }) => own)).toEqual(expect.arrayContaining(aside));
    expect(steps[0]?.resting).toBe(3);
  });

  it("follows from the steps that are committed when a step is played ahead", () => {
    const dull = new Set(["s0", "s1", "s2"]);
    for (const staleness of [1, 2]) {
      const steps = go(9, 1, dull, [], staleness);
      // What was flat in the steps before is not known yet.
      expect(steps.slice(0, 1 + staleness).map(({ resting }) => resting)).toEqual(Array(1 + staleness).fill(0));
      expect(Math.max(...steps.map(({ resting }) => resting))).toBeGreaterThan(0);
    }
  });

  it("says again what it chose for the step before", () => {
    const sampler = chosenScenarios(all, { rest: 1, staleness: 1, difficulty: undefined }, [], () => []);
    const first = sampler.next(1, [], 0);
    sampler.next(2, [], 0);
    expect(sampler.next(1, [], 0)).toEqual(first);
    expect(sampler.resting(1)).toBe(0);
  });

  it("draws no replacement that rests", () => {
    const sampler = chosenScenarios(
      all,
      { rest: 1, staleness: 0, difficulty: "0.1..0.9" },
      [{ scenario: "s0", n: 2, successes: 0 }],
      () => [],
    );
    const own = sampler.next(1, [], 0);
    const flat = own.map(() => ({ hasSignal: false, noVerdict: null, tooFew: false }) as never);
    const further = ids(sampler.next(1, flat, TRAIN));
    expect(further).toHaveLength(3);
    for (let step = 1; step < 4; step++) expect(ids(sampler.next(step, flat, TRAIN))).not.toContain("s0");
  });
});

describe("in a run", () => {
  let folder: string;
  let run: Run;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "hone-resting-"));
    run = await openFake(join(folder, "run"));
  });
  afterEach(() => {
    run.close();
    rmSync(folder, { recursive: true });
  });

  it("what rested is found in the store: groups without an advantage, also those whose rollouts are identical", async () => {
    const dull = new Set(["s0", "s1", "s2", "s3", "s4", "s5"]);
    const rewardGroup: RewardGroup = async (group) => {
      const id = group[0]?.scenario.id ?? "";
      if (id === "s0") return { kind: "alike" };
      if (id === "s6") return { kind: "no_verdict", reason: "unreachable" };
      return { kind: "rewarded", rewards: group.map(({ index }) => (dull.has(id) ? 1 : index)) };
    };
    const chosen = chosenScenarios(all, { rest: 1, staleness: 0, difficulty: undefined }, [], () =>
      run.store.groupOutcomes(),
    );
    const parts = partsOf(run, { change: { rewardGroup }, settings: { steps: 6, validateEvery: 0 } });
    await train({ ...parts, scenarios: chosen });
    const steps = run.store.steps().slice(1);
    const resting = steps.map(({ metrics }) => metrics?.scenarios_resting);
    expect([resting[0], resting[4], resting[5]]).toEqual([0, 6, 6]);
    const played = run.store.groupOutcomes();
    expect(new Set(played.flatMap(({ scenario, hasSignal }) => (hasSignal ? [] : [scenario])))).toEqual(dull);
    expect(played.some(({ scenario }) => scenario === "s6")).toBe(false);
    const second = [5, 6].flatMap((step) => run.store.rollouts("train", step).map(({ scenario }) => scenario.id));
    expect(new Set(second)).toEqual(new Set(["s6", "s7", "s8", "s9", "s10", "s11"]));
  });
});
