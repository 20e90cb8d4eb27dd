/** Which scenarios a step plays, by a second path. */
import { describe, expect, it } from "vitest";
import type { Scenario } from "../../src/core/task/task.js";
import { creditGroups } from "../../src/core/train/credit.js";
import { checkScenarios, type Dealt } from "../../src/guards/draws.js";
import { ScenarioSampler } from "../../src/trainer/sampler.js";
import { trajectoryOf } from "./support/fakes.js";

const scenarios = ["a", "b", "c", "d", "e", "f", "g", "x", "y"].map((id) => ({
  id,
  split: id > "g" ? ("test" as const) : ("train" as const),
  question: "?",
}));
type Some = readonly { readonly id: string }[];
const groupsOf = (ids: Some) =>
  creditGroups(
    ids.map(({ id }) => [trajectoryOf({ scenario: { id, split: "train", question: "?" } })]),
    ids.map(() => ({ kind: "rewarded", rewards: [1] })),
    { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 },
  );
const dealt = (changed: Partial<Dealt> = {}): Dealt => ({
  train: scenarios.filter(({ split }) => split === "train").map(({ id }) => id),
  ...{ groupsPerStep: 3, seed: 5, chosen: false },
  ...changed,
});
const sampler = new ScenarioSampler(scenarios, { groupsPerStep: 3, seed: 5 });

describe("the scenarios of a step", () => {
  it("are those that the sampler gives, over several epochs, with others in place of those with advantages of 0", () => {
    for (let step = 1; step <= 9; step++) {
      const own = sampler.next(step, [], 0);
      const flat = groupsOf(own).map((group) => ({ ...group, hasSignal: false }));
      expect(checkScenarios(step, groupsOf([...own, ...sampler.next(step, flat, 2)]), dealt())).toBeUndefined();
    }
    const one = new ScenarioSampler(scenarios, { groupsPerStep: 7, seed: 2 });
    for (const step of [1, 2, 3])
      expect(
        checkScenarios(step, groupsOf(one.next(step, [], 0)), dealt({ groupsPerStep: 7, seed: 2 })),
      ).toBeUndefined();
  });

  it("are refused where they are another step's, or another seed's", () => {
    expect(checkScenarios(2, groupsOf(sampler.next(1, [], 0)), dealt())).toMatch("deals to another step");
    expect(checkScenarios(3, groupsOf(sampler.next(1, [], 0)), dealt())).toMatch("deals to another step");
    const other = new ScenarioSampler(scenarios, { groupsPerStep: 3, seed: 8 }).next(1, [], 0);
    expect(new Set(other)).not.toEqual(new Set(sampler.next(1, [], 0)));
    expect(checkScenarios(1, groupsOf(other), dealt())).toMatch("deals to another step");
  });

  it("are refused where one comes twice, is held out", () => {
    const [a, b] = sampler.next(1, [], 0) as [Scenario, Scenario, ...Scenario[]];
    expect(checkScenarios(1, groupsOf([a, a, b]), dealt())).toMatch(`step 1 played the scenario ${a.id} twice`);
    expect(checkScenarios(1, groupsOf([a, b, { id: "x" }]), dealt())).toMatch("not of the train split");
    const [, other] = groupsOf(sampler.next(1, [], 0));
    const replaced = [
      ...groupsOf(sampler.next(1, [], 0)).with(1, groupsOf(sampler.next(2, [], 0))[0] as never),
      other as never,
    ];
    expect(checkScenarios(1, replaced, dealt())).toMatch("deals to another step");
  });

  it("are any of the train split where what came of scenarios chooses them, and where a group has no rollout nothing is said", () => {
    const [a, b, c] = sampler.next(2, [], 0) as [Scenario, Scenario, Scenario];
    expect(checkScenarios(1, groupsOf([a, b, c]), dealt({ chosen: true }))).toBeUndefined();
    expect(checkScenarios(1, groupsOf([a, b, b]), dealt({ chosen: true }))).toMatch("twice");
    const [group] = groupsOf([a]);
    expect(
      checkScenarios(2, [{ ...(group as NonNullable<typeof group>), members: [] }, ...groupsOf([b, c])], dealt()),
    ).toBeUndefined();
  });
});
