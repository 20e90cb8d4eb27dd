/** Rewards and advantages against those of a second path. */
import { describe, expect, it } from "vitest";
import type { AdvantageOptions } from "../../src/core/learn/advantages.js";
import { rewardComparable } from "../../src/core/reward/comparable.js";
import type { GroupReward } from "../../src/core/reward/reward.js";
import { type CreditedGroup, creditGroups } from "../../src/core/train/credit.js";
import { checkCredits } from "../../src/guards/credit-check.js";
import { trajectoryOf } from "./support/fakes.js";

const groups = ["a", "b"].map((scenario) =>
  Array.from({ length: 4 }, (_, index) => ({ ...trajectoryOf({ index }), id: `${scenario}/${index}` })),
);
const rewards: GroupReward[] = [
  { kind: "rewarded", rewards: [1, 0, 0.25, -0.5] },
  { kind: "rewarded", rewards: [0, 0, 1, 0.9] },
];
const estimators = ["grpo", "dr-grpo", "rloo"] as const;
const options = (estimator: AdvantageOptions["estimator"]) => ({ estimator, stdFloor: 0.1, spreadFloor: 0 });

/** What is said where the members of the first group are changed. */
function said(change: (member: CreditedGroup["members"][0], i: number) => object): string {
  const credited = creditGroups(groups, rewards, options("grpo"));
  const [first, second] = credited as [CreditedGroup, CreditedGroup];
  const changed = { ...first, members: first.members.map((one, i) => ({ ...one, ...change(one, i) })) };
  return checkCredits(groups, rewards, [changed, second], options("grpo")) ?? "";
}

describe("credits", () => {
  it.each(estimators)(
    "by %s are those of the pairwise differences, with flat and unrewarded groups among them",
    (estimator) => {
      const more: GroupReward[] = [
        { kind: "rewarded", rewards: [1, 1, 1, 1] },
        { kind: "no_verdict", reason: "x" },
      ];
      for (const given of [rewards, more]) {
        expect(
          checkCredits(groups, given, creditGroups(groups, given, options(estimator)), options(estimator)),
        ).toBeUndefined();
      }
    },
  );

  it("of rewards that are large beside their differences are taken", () => {
    const large: GroupReward[] = [1, 1e6].map((by) => ({
      kind: "rewarded",
      rewards: [3, 1, 2, 2.5].map((one) => 1e6 + one / by),
    }));
    const exact = { ...options("grpo"), stdFloor: 0 };
    expect(checkCredits(groups, large, creditGroups(groups, large, exact), exact)).toBeUndefined();
  });

  it("of masked rollouts are 0, and the others' follow from all rewards", () => {
    const cut = groups.map((group) =>
      group.map((one, i) => ({ ...one, end: i === 1 ? ("token_limit" as const) : one.end })),
    );
    const masking = { ...options("grpo"), maskTruncated: true };
    expect(checkCredits(cut, rewards, creditGroups(cut, rewards, masking), masking)).toBeUndefined();
  });

  it("are refused with another rollout's reward, another sign, or another group's", () => {
    expect(said((_, i) => ({ reward: [0, 1, 0.25, -0.5][i] }))).toMatch(
      "the rollout a/0 was given the reward 1, and has 0; the step was not taken",
    );
    expect(said(({ reward }) => ({ reward: -reward }))).toMatch(/was given the reward 1, and has -1/);
    const swapped = creditGroups(groups, [...rewards].reverse(), options("grpo"));
    expect(checkCredits(groups, rewards, swapped, options("grpo"))).toMatch("was given the reward 1, and has 0");
  });

  it("are refused with rewards that were asked for another group, or another rollout of it", async () => {
    const reward = rewardComparable(async (group) => ({ kind: "rewarded", rewards: group.map((_, i) => i / 4) }));
    const asked = await Promise.all(groups.map((group) => reward(group, 1)));
    const check = (given: readonly GroupReward[]) =>
      checkCredits(groups, given, creditGroups(groups, given, options("grpo")), options("grpo"));
    expect(check(asked)).toBeUndefined();
    expect(check([...asked].reverse())).toMatch("the rollout a/0 was given the reward of b/0");
    const [first, second] = asked as [GroupReward & { of: string[] }, GroupReward];
    const turned = { ...first, of: [...first.of].reverse() };
    expect(check([turned, second])).toMatch("the rollout a/0 was given the reward of a/3");
  });

  it("are refused with another mean or deviation, and where a rollout is left out", () => {
    expect(said(({ advantage }) => ({ advantage: advantage + 0.01 }))).toMatch(
      /the rollout a\/0 has the advantage 1\.\d+, and its group's rewards give 1\.\d+/,
    );
    // Of the population.
    expect(said(({ advantage }) => ({ advantage: advantage * Math.sqrt(4 / 3) }))).toMatch(/has the advantage/);
    expect(said((_, i) => ({ masked: i === 2 }))).toMatch("the rollout a/2 is left out, and has the advantage");
    const flat = creditGroups(groups, rewards, options("grpo")).map((one) => ({ ...one, hasSignal: false }));
    expect(checkCredits(groups, rewards, flat, options("grpo"))).toMatch("a/0 is left out, and has the advantage");
  });

  it("are refused where none was given", () => {
    const none: GroupReward[] = groups.map(() => ({ kind: "no_verdict", reason: "?" }));
    expect(checkCredits(groups, none, creditGroups(groups, rewards, options("grpo")), options("grpo"))).toMatch(
      "the group of a/0 has rewards, and none was given",
    );
  });

  it("are refused for other rollouts than were played", () => {
    const credited = creditGroups(groups, rewards, options("grpo"));
    const [first, second] = credited as [CreditedGroup, CreditedGroup];
    for (const members of [first.members.slice(1), first.members.slice(0, -1)]) {
      expect(checkCredits(groups, rewards, [{ ...first, members }, second], options("grpo"))).toMatch(
        "the group of a/0 has other rollouts than were played",
      );
    }
  });
});
