/** Rollouts that ended by no fault of the model: they are counted, and nothing is learnt from them. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { rewardComparable } from "../../src/core/reward/comparable.js";
import type { RewardGroup } from "../../src/core/reward/reward.js";
import { brokenOff } from "../../src/core/rollout/deadline.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import type { StepMetricsRow } from "../../src/core/run/records.js";
import type { Run } from "../../src/core/run/run.js";
import { batchOf, creditGroups, creditsOf } from "../../src/core/train/credit.js";
import { stepMetricsRow } from "../../src/core/train/metrics.js";
import type { PlayRequest, PlayResult } from "../../src/core/train/parts.js";
import { checkProgress, STEPS_UNREWARDED, STEPS_WITHOUT_SPREAD } from "../../src/guards/progress.js";
import { taskReward } from "../../src/judge/reward/registry.js";
import { FakePolicy, openFake, partsOf, train, trajectoryOf } from "./support/fakes.js";

const failed = (index: number, reward = 0): Trajectory => ({
  ...trajectoryOf({ index, reward }),
  end: "tool_failure",
  reason: "the tool search failed: disk on fire",
});
const late = (index: number, deadlineCause?: Trajectory["deadlineCause"]): Trajectory => ({
  ...trajectoryOf({ index, reward: 0 }),
  end: "deadline",
  ...(deadlineCause ? { deadlineCause } : {}),
});
const options = { estimator: "dr-grpo", stdFloor: 0, spreadFloor: 0 } as const;

async function creditOf(group: readonly Trajectory[], reward: RewardGroup = taskReward) {
  return creditGroups([group], [await rewardComparable(reward)(group, 1)], options);
}

describe("a rollout that was broken off", () => {
  it("is told from one that failed by itself", () => {
    expect([failed(0), late(0, "tools"), late(0, "queue"), late(0, "turn")].map(brokenOff)).toEqual([
      "tool_failure",
      "deadline_tools",
      "deadline_queue",
      "deadline_turn",
    ]);
    const own = (["token_limit", "turn_limit", "context_limit", "no_tool_call", "bad_call"] as const).map((end) => ({
      ...trajectoryOf({ reward: 0 }),
      end,
    }));
    expect([...own, late(0, "generation")].map(brokenOff)).toEqual(own.map(() => null).concat(null));
    // In files of before causes were noted such rollouts were trained.
    expect(brokenOff(late(0))).toBeNull();
  });

  it("has no part in its group's mean, nor in the batch", async () => {
    const group = [
      trajectoryOf({ index: 0, reward: 1 }),
      failed(1),
      late(2, "queue"),
      trajectoryOf({ index: 3, reward: 0 }),
    ];
    const credited = await creditOf(group);
    expect(creditsOf(credited).map(({ member, advantage }) => [member, advantage])).toEqual([
      [0, 0.5],
      [3, -0.5],
    ]);
    expect(batchOf(credited, { kl: 0.1 })[0]?.map(({ advantage }) => advantage)).toEqual([0.5, -0.5]);
    expect(stepMetricsRow(credited, [], 0.1, null)).toMatchObject({
      rollouts: 4,
      success: 0.25,
      rollouts_broken_off: 2,
      broken_off: { deadline_queue: 1, tool_failure: 1 },
      groups_broken_off: 0,
      groups_trainable: 1,
      training_n: 2,
      training_reward: 0.5,
    });
  });

  it("is trained like any other when its own writing used up the time", async () => {
    const credited = await creditOf([trajectoryOf({ index: 0, reward: 1 }), late(1, "generation")]);
    expect(creditsOf(credited).map(({ advantage }) => advantage)).toEqual([0.5, -0.5]);
  });

  it("is not shown to a judge; of a single rollout that is left, nothing is asked", async () => {
    const asked: number[][] = [];
    const judge: RewardGroup = async (group) => {
      asked.push(group.map(({ index }) => index));
      return { kind: "rewarded", rewards: group.map(({ index }) => index) };
    };
    const some = await creditOf([trajectoryOf({ index: 0 }), failed(1), trajectoryOf({ index: 2 })], judge);
    expect(creditsOf(some).map(({ member, reward }) => [member, reward])).toEqual([
      [0, 0],
      [2, 2],
    ]);
    const one = await creditOf([trajectoryOf({ index: 0, reward: 1 }), failed(1), late(2, "tools")], judge);
    expect(asked).toEqual([[0, 2]]);
    expect(creditsOf(one)).toEqual([]);
    expect(stepMetricsRow(one, [], 0.1, null)).toMatchObject({
      groups: 1,
      groups_trainable: 0,
      groups_flat: 0,
      groups_unrewarded: 0,
      groups_broken_off: 1,
      skipped: "broken_off",
    });
  });
});

describe("a run whose tools fail", () => {
  let base: string;
  const open: Run[] = [];
  beforeEach(() => {
    base = mkdtempSync(join(tmpdir(), "hone-broken-"));
  });
  afterEach(() => {
    for (const run of open.splice(0)) run.close();
    rmSync(base, { recursive: true });
  });

  /** Breaks rollouts off as `breaks` says, before anybody sees them. */
  class Breaking extends FakePolicy {
    readonly breaks: (index: number) => boolean;
    constructor(breaks: (index: number) => boolean) {
      super();
      this.breaks = breaks;
    }
    override async play(request: PlayRequest): Promise<PlayResult> {
      const of = (one: Trajectory): Trajectory => (this.breaks(one.index) ? { ...one, end: "tool_failure" } : one);
      const played = await super.play({
        ...request,
        onTrajectory: (one) => request.onTrajectory(of(one)),
        onGroup: (group) => request.onGroup?.(group.map(of)),
      });
      return { ...played, groups: played.groups.map((group) => group.map(of)) };
    }
  }

  async function run(breaks: (index: number) => boolean, steps: number) {
    const run = await openFake(join(base, "run"));
    open.push(run);
    const judged: number[] = [];
    const rewardGroup: RewardGroup = async (group, step) => {
      judged.push(...group.map(({ index }) => index));
      return taskReward(group, step);
    };
    const parts = partsOf(run, { settings: { steps, validateEvery: 0 }, change: { rewardGroup } });
    const ended = await train({ ...parts, policy: new Breaking(breaks) }).then(
      () => undefined,
      (error: Error) => error.message,
    );
    return { run, ended, judged };
  }

  it("trains the others, and says in every step how many were left out", async () => {
    const { run: done, ended, judged } = await run((index) => index === 1, 1);
    expect(ended).toBeUndefined();
    expect(new Set(judged)).toEqual(new Set([0, 2]));
    const [line] = readFileSync(join(base, "run", "metrics.jsonl"), "utf8")
      .trimEnd()
      .split("\n");
    expect(JSON.parse(line ?? "")).toMatchObject({ rollouts_broken_off: 2, broken_off: { tool_failure: 2 } });
    expect(done.store.rollouts("train", 1)).toHaveLength(6);
    // Held-out rollouts count as they did: none is left out.
    expect(done.store.validations()[0]?.result.n).toBe(2);
  });

  it("is stopped with the reason when no group has two rollouts left", async () => {
    const { run: stopped, ended, judged } = await run((index) => index > 0, 9);
    expect(ended).toContain(
      `no group had two rollouts to compare in ${STEPS_UNREWARDED} steps in a row, because others ended by no fault of the model (12 of 18 rollouts: tool_failure 12)`,
    );
    expect(judged).toEqual([]);
    expect(stopped.store.lastStep()).toMatchObject({ step: STEPS_UNREWARDED, metrics: { skipped: "broken_off" } });
  });
});

describe("steps without spread", () => {
  it("say so when rollouts were left out of the comparison", () => {
    const row = (change: Partial<StepMetricsRow>): StepMetricsRow => ({
      ...stepMetricsRow([], [], 0.1, null),
      rollouts: 8,
      success: 0,
      skipped: "no_spread",
      ...change,
    });
    const steps = Array.from({ length: STEPS_WITHOUT_SPREAD }, () => row({}));
    expect(checkProgress(steps)).toMatch("all rollouts got the same reward, and only");
    const broken = row({ rollouts_broken_off: 3, broken_off: { tool_failure: 3 } });
    expect(checkProgress([...steps.slice(1), broken])).toMatch(
      "all rollouts got the same reward, those left out that ended by no fault of the model (3 of 80 rollouts: tool_failure 3), and only",
    );
  });
});
