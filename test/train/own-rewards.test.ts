/** What a program gives as a group's reward is checked before a step is made of it. */
import { expect, test } from "vitest";
import type { GroupReward } from "../../src/core/reward/reward.js";
import { checkGroupReward } from "../../src/trainer/rewards.js";
import { trajectoryOf } from "./support/fakes.js";

const group = [0, 1].map((index) => trajectoryOf({ index }));
const check = (given: unknown) => () => checkGroupReward(group, given as GroupReward, "group 0");

test.each([
  [undefined, "the reward of group 0 is neither a list of numbers nor { kind }"],
  [{}, "with one of rewarded, alike, broken_off, no_verdict as the kind"],
  [{ kind: "rewarded" }, "the reward of group 0 has no list of rewards"],
  [{ kind: "rewarded", rewards: [1] }, "group 0 has 2 rollouts and 1 rewards; give one for each"],
  [{ kind: "rewarded", rewards: [1, Number.NaN] }, `the reward of rollout ${group[1]?.id} is NaN, not a number`],
  [{ kind: "rewarded", rewards: [1, 0], parts: [{}] }, "group 0 has 2 rollouts; give parts for each, or none"],
  [
    { kind: "rewarded", rewards: [1, 0], parts: [{}, { form: Number.NaN }] },
    `the part form of rollout ${group[1]?.id} is NaN, not a number`,
  ],
])("%j is refused", (given, words) => {
  expect(check(given)).toThrow(words);
});

test.each([
  { kind: "alike" },
  { kind: "no_verdict", reason: "timeout" },
  { kind: "rewarded", rewards: [1, 0], parts: [{ form: 1 }, { form: 0 }], explanations: ["good", "bad"] },
])("%j is taken", (given) => {
  expect(check(given)).not.toThrow();
});
