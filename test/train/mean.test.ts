/** What a step's loss is a mean over, by a second path. */
import { expect, it } from "vitest";
import { creditGroups, meanOver } from "../../src/core/train/credit.js";
import { checkMean } from "../../src/guards/credit-check.js";
import { trajectoryOf } from "./support/fakes.js";

const group = (scenario: number, rewards: readonly number[], limit = false) =>
  rewards.map((reward, index) => ({
    ...trajectoryOf({
      scenario: { id: `s${scenario}`, split: "train", question: "?" },
      index,
      seed: 7 * scenario + index,
      reward,
    }),
    ...(limit && index === 0 ? { end: "turn_limit" as const } : {}),
  }));
const rewardOf = (rewards: readonly number[]) => ({ kind: "rewarded", rewards }) as const;

it("is taken as credit.ts counts it, and not otherwise", () => {
  const rewards = [
    [0, 1, 1],
    [1, 1, 1],
    [0, 0, 0],
    [1, 0, 1],
  ];
  const groups = rewards.map((each, i) => group(i, each, i === 3));
  const [[agent]] = groups as [[(typeof groups)[0][0]]];
  if (agent?.tokens) agent.branches = [{ messages: [], tokens: agent.tokens }];
  // Neither has known rewards.
  const unknown = [{ kind: "no_verdict", reason: "?" } as const, { kind: "broken_off" } as const];
  const played = [...groups, group(4, [0, 1, 1]), group(5, [0, 1, 1])];
  const options = { estimator: "grpo", stdFloor: 1e-6, spreadFloor: 1e-9, maskTruncated: true } as const;
  const credited = creditGroups(played, [...rewards.map(rewardOf), ...unknown], options);
  for (const further of [-1, 0, 1, 2, 3]) {
    const mean = meanOver(credited, further);
    expect(checkMean(credited, further, mean)).toBeUndefined();
    const { rollouts, sampledTokens } = mean;
    expect(checkMean(credited, further, { rollouts, sampledTokens: sampledTokens + 1 })).toMatch(
      "would be a mean over",
    );
    expect(checkMean(credited, further, { rollouts: rollouts - 1, sampledTokens })).toMatch("the step has");
  }
  expect(meanOver(credited, 1)).not.toEqual(meanOver(credited, 0));
});
