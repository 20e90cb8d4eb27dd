import { describe, expect, it } from "vitest";
import type { GroupReward } from "../../src/core/reward/reward.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import type { RolloutEnd } from "../../src/core/task/task.js";
import { batchOf, type CreditedGroup, creditGroups, creditsOf, meanOver } from "../../src/core/train/credit.js";
import { stepMetricsRow } from "../../src/core/train/metrics.js";
import { randomReward } from "../../src/judge/reward/control.js";
import { taskReward } from "../../src/judge/reward/registry.js";
import { trajectoryOf } from "./support/fakes.js";

const options = { estimator: "dr-grpo", stdFloor: 0, spreadFloor: 0 } as const;
const group = [0, 1, 0.5].map((reward, index) => trajectoryOf({ index, reward }));
const flat = [1, 1].map((reward, index) => trajectoryOf({ index, reward }));

const credited = async (groups: Trajectory[][]) =>
  creditGroups(groups, await Promise.all(groups.map((one) => taskReward(one, 1))), options);

describe("a group's credit", () => {
  it("are its rewards less their mean", async () => {
    const groups = await credited([group, flat]);
    expect(groups.map(({ hasSignal, rewarded }) => [hasSignal, rewarded])).toEqual([
      [true, true],
      [false, true],
    ]);
    expect(creditsOf(groups).map(({ reward, advantage }) => [reward, advantage])).toEqual([
      [0, -0.5],
      [1, 0.5],
      [0.5, 0],
      [1, 0],
      [1, 0],
    ]);
  });

  it("leave groups without spread out of the batch", async () => {
    const batch = batchOf(await credited([group, flat]), { kl: 0 });
    expect(batch).toHaveLength(1);
    expect(batch[0]?.map(({ advantage }) => advantage)).toEqual([-0.5, 0.5, 0]);
    expect(batch[0]?.[1]?.tokens).toBe(group[1]?.tokens);
  });

  it("are one advantage for all sequences of a rollout", async () => {
    const branch = { messages: [], tokens: trajectoryOf({ index: 7 }).tokens as NonNullable<Trajectory["tokens"]> };
    const agents = group.map((one, index) => (index === 1 ? { ...one, branches: [branch] } : one));
    const [members] = batchOf(await credited([agents]), { kl: 0 });
    expect(members?.map(({ branches = [] }) => branches.length)).toEqual([0, 1, 0]);
    expect(members?.[1]).toMatchObject({ advantage: 0.5, branches: [branch.tokens] });
  });

  it("count groups without spread in the step's mean, not those without a reward", async () => {
    const [known, same] = (await credited([group, flat])) as [CreditedGroup, CreditedGroup];
    const [noVerdict] = creditGroups([group], [{ kind: "no_verdict", reason: "timeout" }], options) as [CreditedGroup];
    const [few] = creditGroups([group], [{ kind: "broken_off" }], options) as [CreditedGroup];
    const [alike] = creditGroups([flat], [{ kind: "alike" }], options) as [CreditedGroup];
    const groups = [known, same, noVerdict, few, alike];
    const tokens = (rollouts: Trajectory[]) =>
      rollouts.reduce((sum, { completionTokens }) => sum + completionTokens, 0);
    expect(meanOver(groups)).toEqual({ rollouts: 3 + 2 + 2, sampledTokens: tokens([...group, ...flat, ...flat]) });
    // One of the others stands for the first group without spread.
    expect(meanOver(groups, 1)).toEqual({ rollouts: 3 + 2, sampledTokens: tokens([...group, ...flat]) });
  });

  it("have the groups without spread in the batch for a KL term, but those that others replaced", async () => {
    const [known, same] = (await credited([group, flat])) as [CreditedGroup, CreditedGroup];
    const [noVerdict] = creditGroups([group], [{ kind: "no_verdict", reason: "timeout" }], options) as [CreditedGroup];
    const [alike] = creditGroups([flat], [{ kind: "alike" }], options) as [CreditedGroup];
    const groups = [known, same, noVerdict, alike];
    const advantages = (further: number) =>
      batchOf(groups, { kl: 0.1, further }).map((members) => members.map(({ advantage }) => advantage));
    expect(advantages(0)).toEqual([
      [-0.5, 0.5, 0],
      [0, 0],
      [0, 0],
    ]);
    expect(advantages(1)).toEqual([
      [-0.5, 0.5, 0],
      [0, 0],
    ]);
    expect(batchOf([same], { kl: 0.1 })).toHaveLength(1);
  });

  it("leave groups out of the batch that have no gradient: all masked, or with nothing sampled where there is an advantage", async () => {
    const cut = group.map((one) => ({ ...one, end: "token_limit" as const }));
    const rewards = await Promise.all([cut, group].map((one) => taskReward(one, 1)));
    const masked = creditGroups([cut, group], rewards, { ...options, maskTruncated: true });
    expect(batchOf(masked, { kl: 0.1 })).toHaveLength(1);
    expect(batchOf(masked.slice(0, 1), { kl: 0.1 })).toEqual([]);

    const mute = (one: Trajectory): Trajectory => {
      const tokens = one.tokens as NonNullable<Trajectory["tokens"]>;
      return { ...one, tokens: { ...tokens, sampled: tokens.sampled.map(() => 0) } };
    };
    // Only the third, whose advantage is 0, has said anything.
    const mostly = await credited([group.map((one, i) => (i < 2 ? mute(one) : one))]);
    expect(batchOf(mostly, { kl: 0 })).toEqual([]);
    expect(batchOf(mostly, { kl: 0.1 })[0]).toHaveLength(3);
    expect(batchOf(await credited([group.map(mute)]), { kl: 0.1 })).toEqual([]);
  });

  it("are none when the group could not be rewarded", async () => {
    const noVerdict = creditGroups([group], [{ kind: "no_verdict", reason: "timeout" }], options);
    expect(noVerdict[0]).toMatchObject({ rewarded: false, noVerdict: "timeout", hasSignal: false });
    expect(creditsOf(noVerdict)).toEqual([]);
    expect(batchOf(noVerdict, { kl: 0.1 })).toEqual([]);
    expect(creditGroups([group], [{ kind: "alike" }], options)[0]).toMatchObject({ noVerdict: null, hasSignal: false });
  });

  it("are none when a judge's scores differ by less than the spread floor", () => {
    const judged = { ...options, spreadFloor: 0.05 };
    const hasSignal = (...rewards: number[]) =>
      creditGroups([group], [{ kind: "rewarded", rewards }], judged)[0]?.hasSignal;
    expect(hasSignal(0.8, 0.849, 0.82)).toBe(false);
    expect(hasSignal(0.8, 0.85, 0.82)).toBe(true);
    expect(hasSignal(0.9, 0.95, 0.92)).toBe(true);
    expect(hasSignal(0.5, 0.5, 0.5)).toBe(false);
  });

  it("carry the judge's words", () => {
    const explanations = ["no", "yes", "so so"];
    const judged = creditGroups([group], [{ kind: "rewarded", rewards: [0, 1, 0.5], explanations }], options);
    expect(creditsOf(judged).map(({ explanation }) => explanation)).toEqual(explanations);
  });

  it("are none of a rollout that a limit ended, on request; it has its part in the mean", () => {
    const ended = (end: RolloutEnd, i: number) => ({ ...(group[i] as Trajectory), end });
    const rewards: GroupReward[] = [{ kind: "rewarded", rewards: [0, 1, 0.5] }];
    for (const end of ["turn_limit", "token_limit", "context_limit"] as const) {
      const cut = [[ended(end, 0), ended("answered", 1), ended("no_tool_call", 2)]];
      const [masked] = creditGroups(cut, rewards, { ...options, maskTruncated: true }) as [CreditedGroup];
      expect(masked).toMatchObject({ hasSignal: true, allMasked: false });
      expect(creditsOf([masked]).map(({ reward, advantage }) => [reward, advantage])).toEqual([
        [0, 0],
        [1, 0.5],
        [0.5, 0],
      ]);
      for (const kl of [0, 0.1]) {
        expect(batchOf([masked], { kl })[0]?.map(({ advantage }) => advantage)).toEqual([0.5, 0]);
      }
      const sampledTokens = cut
        .flat()
        .reduce((sum, { completionTokens }, i) => sum + (i === 0 ? 0 : completionTokens), 0);
      expect(meanOver([masked])).toEqual({ rollouts: 3, sampledTokens });
      expect(stepMetricsRow([masked], [], 0.1, null)).toMatchObject({ rollouts_masked: 1, groups_masked: 0 });
      const [learnt] = creditGroups(cut, rewards, options) as [CreditedGroup];
      expect(batchOf([learnt], { kl: 0 })[0]?.map(({ advantage }) => advantage)).toEqual([-0.5, 0.5, 0]);
    }
  });

  it("are none of a group of which masking leaves only the mean, which is counted", () => {
    const cut = [0, 1, 2].map(
      (i) => ({ ...(group[i] as Trajectory), end: i < 2 ? "token_limit" : "answered" }) as Trajectory,
    );
    const credited = creditGroups([cut], [{ kind: "rewarded", rewards: [0, 1, 0.5] }], {
      ...options,
      maskTruncated: true,
    });
    expect(credited[0]).toMatchObject({ hasSignal: false, allMasked: true });
    expect(batchOf(credited, { kl: 0 })).toEqual([]);
    expect(stepMetricsRow(credited, [], 0.1, null)).toMatchObject({
      groups_trainable: 0,
      groups_flat: 0,
      groups_masked: 1,
      rollouts_masked: 2,
      skipped: "truncated",
    });
  });

  it("need tokens", async () => {
    const { tokens: _, ...spoken } = trajectoryOf({ index: 3, reward: 0 });
    const groups = await credited([[...group, spoken]]);
    expect(() => batchOf(groups, { kl: 0 })).toThrow("s0/3 has no tokens");
  });
});

describe("random rewards", () => {
  it("depend on the place of a rollout and not on what it did", async () => {
    const long = Array.from({ length: 200 }, (_, index) => trajectoryOf({ index, reward: 0 }));
    const other = Array.from({ length: 200 }, (_, index) => trajectoryOf({ index, reward: 1, seed: 9 }));
    const coins = async (seed: number, group: Trajectory[], step: number) => {
      const reward = await randomReward(seed)(group, step);
      return reward.kind === "rewarded" ? reward.rewards : [];
    };
    const rewards = await coins(1, long, 5);
    expect(await coins(1, other, 5)).toEqual(rewards);
    expect(await coins(1, long, 6)).not.toEqual(rewards);
    expect(await coins(2, long, 5)).not.toEqual(rewards);
    const heads = rewards.filter((reward) => reward === 1).length;
    expect(heads).toBeGreaterThan(70);
    expect(heads).toBeLessThan(130);
  });
});
