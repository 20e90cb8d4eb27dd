import { describe, expect, it } from "vitest";
import type { Scenario } from "../../src/core/task/task.js";
import { scenariosFingerprint, validationScenarios } from "../../src/scenarios/held-out.js";
import { ScenarioSampler } from "../../src/trainer/sampler.js";
import { scenarios } from "./support/fakes.js";

const ids = (chosen: readonly Scenario[]) => chosen.map(({ id }) => id);
const train = ids(scenarios.filter(({ split }) => split === "train"));

describe("the scenario sampler", () => {
  it("plays each train scenario once an epoch, in an order of the epoch's own", () => {
    const sampler = new ScenarioSampler(scenarios, { groupsPerStep: 2, seed: 1 });
    const epoch = (number: number) => [1, 2, 3, 4].flatMap((step) => ids(sampler.next(4 * number + step, [], 0)));
    expect(sampler.stepsPerEpoch).toBe(4);
    expect([...epoch(0)].sort()).toEqual(train);
    expect([...epoch(1)].sort()).toEqual(train);
    expect(epoch(0)).not.toEqual(epoch(1));
  });

  it("resumes by the number of the step alone", () => {
    const first = new ScenarioSampler(scenarios, { groupsPerStep: 3, seed: 1 });
    const before = [1, 2, 3, 4, 5].map((step) => ids(first.next(step, [], 0)));
    expect(ids(new ScenarioSampler(scenarios, { groupsPerStep: 3, seed: 1 }).next(5, [], 0))).toEqual(before[4]);
    expect(ids(new ScenarioSampler(scenarios, { groupsPerStep: 3, seed: 2 }).next(5, [], 0))).not.toEqual(before[4]);
  });

  it("resumes at a late step without looking at each scenario for each step before", () => {
    let looked = 0;
    const watched = Array.from({ length: 2000 }, (_, i): Scenario => {
      const one = { id: "", split: i > 0 ? "train" : "test" } as const;
      return Object.defineProperty(one, "id", { get: () => looked++ && `s${i}` }) as unknown as Scenario;
    });
    const sampler = new ScenarioSampler(watched, { groupsPerStep: 4, seed: 1 });
    expect(sampler.next(300, [], 0)).toHaveLength(4);
    expect(looked).toBeLessThan(2 * 300 * 4);
  });

  it("validates on test scenarios that `yarn eval --fresh` can name again by the run's settings", () => {
    const sampler = new ScenarioSampler(scenarios, { groupsPerStep: 2, seed: 1 });
    const validated = sampler.ofValidation(2);
    expect(validated.map(({ split }) => split)).toEqual(["test", "test"]);
    expect(validationScenarios(scenarios, { seed: 1, validateN: 2 })).toEqual(validated);
  });

  it("never plays a scenario twice in a step, also where an epoch does not divide", () => {
    const sampler = new ScenarioSampler(scenarios, { groupsPerStep: 3, seed: 1 });
    for (let step = 1; step < 40; step++) expect(new Set(ids(sampler.next(step, [], 0))).size).toBe(3);
  });

  it("validates on the same test scenarios every time", () => {
    const sampler = new ScenarioSampler(scenarios, { groupsPerStep: 2, seed: 1 });
    expect(sampler.ofValidation(3)).toEqual(sampler.ofValidation(3));
    expect(sampler.ofValidation(100).every(({ split }) => split === "test")).toBe(true);
    expect(sampler.ofValidation(100)).toHaveLength(4);
  });

  it("refuses what it cannot play", () => {
    expect(() => new ScenarioSampler(scenarios, { groupsPerStep: 9, seed: 1 })).toThrow(
      "train split has only 8 scenarios",
    );
    expect(() => new ScenarioSampler([], { groupsPerStep: 1, seed: 1 })).toThrow(
      "the train split has no scenario (0 in all)",
    );
    const onlyTrain = scenarios.filter(({ split }) => split === "train");
    expect(() => new ScenarioSampler(onlyTrain, { groupsPerStep: 1, seed: 1 })).toThrow(
      "the test split has no scenario (8 in all), and training needs both splits",
    );
  });

  it("knows its scenarios by a fingerprint", () => {
    const changed = scenarios.map((scenario, i) => (i === 5 ? { ...scenario, question: "Why?" } : scenario));
    expect(scenariosFingerprint(changed)).not.toBe(scenariosFingerprint(scenarios));
    expect(scenariosFingerprint([...scenarios])).toBe(scenariosFingerprint(scenarios));
  });
});
