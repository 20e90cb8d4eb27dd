/** What a step's figures are over. */
import { describe, expect, it } from "vitest";
import type { GroupReward } from "../../src/core/reward/reward.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { clustered } from "../../src/core/run/interval.js";
import type { Scenario } from "../../src/core/task/task.js";
import { creditGroups } from "../../src/core/train/credit.js";
import { stepMetricsRow } from "../../src/core/train/metrics.js";
import { metricsOf, scenarios, trajectoryOf } from "./support/fakes.js";

const options = { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 } as const;
const groupOf = (scenario: number, rewards: readonly number[]): Trajectory[] =>
  rewards.map((reward, index) =>
    trajectoryOf({ scenario: scenarios[scenario] as Scenario, index, seed: index, reward }),
  );
const rewarded = (group: readonly Trajectory[]): GroupReward => ({
  kind: "rewarded",
  rewards: group.map(({ reward }) => reward.reward),
});

describe("a step's figures", () => {
  const spread = groupOf(0, [1, 0, 0, 1]);
  const flat = groupOf(1, [1, 1, 1, 1]);
  const groups = [spread, flat];
  const credited = creditGroups(groups, groups.map(rewarded), options);

  it("have an interval over questions, not over rollouts", () => {
    const { success, success_low: low, success_high: high } = stepMetricsRow(credited, [], 0.1, metricsOf());
    expect(success).toBe(0.75);
    const wanted = clustered([
      { n: 4, successes: 2 },
      { n: 4, successes: 4 },
    ]);
    expect({ low, high }).toEqual(wanted);
  });

  it("have the entropy of all rollouts beside that of those that trained", () => {
    const sampled = groups
      .flat()
      .flatMap(({ tokens }) => tokens?.logprobs.filter((_, i) => tokens.sampled[i] === 1) ?? []);
    const row = stepMetricsRow(credited, [], 0.1, metricsOf({ entropy: 0.7 }));
    expect(row.entropy).toBeCloseTo(-sampled.reduce((sum, value) => sum + value, 0) / sampled.length, 12);
    expect(row.entropy_trained).toBe(0.7);
    // A step that trained nothing was played too.
    expect(stepMetricsRow(credited, [], 0.1, null)).toMatchObject({ entropy: row.entropy, entropy_trained: null });
    expect(stepMetricsRow([], [], 0.1, null).entropy).toBeNull();
  });

  it("have the spread within groups, without groups that have no reward", () => {
    const lost: GroupReward = { kind: "no_verdict", reason: "timeout" };
    const alike: GroupReward = { kind: "alike" };
    // Of 1, 0, 0, 1: the root of 1/3.
    const row = (...rewards: GroupReward[]) =>
      stepMetricsRow(creditGroups([spread, flat, flat].slice(0, rewards.length), rewards, options), [], 0.1, null);
    expect(row(rewarded(spread), rewarded(flat))).toMatchObject({ reward_spread: Math.sqrt(1 / 3) / 2, spread_n: 2 });
    expect(row(rewarded(spread), lost, alike)).toMatchObject({ reward_spread: Math.sqrt(1 / 3) / 2, spread_n: 2 });
    expect(row(lost)).toMatchObject({ reward_spread: null, spread_n: 0 });
  });

  it("have the sums of what agents counted", () => {
    const counts = [{ completions: 2, sequences: 1 }, { completions: 3, sequences: 2, off_form: 1 }, undefined];
    const played = counts.map((agent, i) => ({ ...(spread[i] as Trajectory), ...(agent ? { agent } : {}) }));
    const { agent } = stepMetricsRow(creditGroups([played], [rewarded(played)], options), [], 0.1, null);
    expect(agent).toEqual({ completions: 5, sequences: 3, off_form: 1 });
  });

  it("have the parts of all rewards, also of what was broken off, and a judge's own, and how far it agreed", () => {
    const played = [2, 3, 7].map((right, i) => ({
      ...(spread[i] as Trajectory),
      reward: { reward: 0, success: false, parts: { right } },
      end: i === 2 ? ("tool_failure" as const) : ("answered" as const),
    }));
    const parts = [{ tone: 1 }, { tone: 3 }];
    const judged: GroupReward = { kind: "rewarded", rewards: [0, 1], parts, agreement: 0.5 };
    const other: GroupReward = { kind: "rewarded", rewards: [1], agreement: 1 };
    const row = stepMetricsRow(creditGroups([played, flat.slice(0, 1)], [judged, other], options), [], 0.1, null);
    expect(row).toMatchObject({
      parts: { right: { mean: 13 / 4, n: 4 }, tone: { mean: 2, n: 2 } },
      judge_agreement: 0.75,
    });
  });

  it("have the update's tokens and distances, and what bounded the ratio, by its side and together", () => {
    // A prefix that rollouts share is computed once, and is of each.
    const tokens = { total: 40, sampled: 16, computed: 30, padding: 2 };
    const update = metricsOf({
      clip: { below: 0.25, above: 0.5 },
      tokens,
      mismatchKl: { k1: 0.01, k3: 0.02 },
      importance: { truncated: 0.1, masked: 0.2, ess: 0.9 },
    });
    expect(stepMetricsRow(credited, [], 0.1, update)).toMatchObject({
      clip_fraction: 0.75,
      clip_below: 0.25,
      clip_above: 0.5,
      tokens: 40,
      sampled_tokens: 16,
      mismatch_kl: 0.02,
      importance_truncated: 0.1,
      importance_masked: 0.2,
      importance_ess: 0.9,
    });
    expect(stepMetricsRow(credited, [], 0.1, null)).toMatchObject({ clip_fraction: null, clip_above: null });
  });
});
