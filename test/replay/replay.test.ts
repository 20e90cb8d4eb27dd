/** Which steps are replayed, and which step's batch a run's file is: an update that was interrupted leaves that of a step which the run does not have. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { writeBatch } from "../../src/core/learn/batch.js";
import type { StepRow } from "../../src/core/run/records.js";
import type { RunSettings } from "../../src/core/run/settings.js";
import { batchOf, type CreditedGroup } from "../../src/core/train/credit.js";
import { rateOfStep } from "../../src/core/train/schedule.js";
import { replayRate } from "../../src/trainer/replay/rate.js";
import { stepsToReplay } from "../../src/trainer/replay/replay.js";
import { replayedGroups, rewardsChanged } from "../../src/trainer/replay/rewards.js";
import type { KeptStep } from "../../src/trainer/replay/types.js";
import { replayBatch } from "../../src/trainer/replay/update.js";
import { ScenarioSampler } from "../../src/trainer/sampler.js";
import { trajectoryOf } from "../train/support/fakes.js";

const groupOf = (seed: number) => {
  const members = [0, 1].map((index) => ({
    trajectory: trajectoryOf({ index, seed: seed + index }),
    ...{ advantage: index - 0.5, masked: false },
  }));
  return { members, hasSignal: true, rewarded: true } as unknown as CreditedGroup;
};
const groups = [groupOf(1)];
const settings = { kl: 0, temperature: 1 } as RunSettings;

/** What is said of step 3, the last, where the file has this content. */
async function said(write: (file: string) => Promise<unknown> | unknown, isLastUpdate = true) {
  const [folder, scratch] = ["run", "scratch"].map((name) => mkdtempSync(join(tmpdir(), `hone-replay-${name}-`)));
  await write(join(folder as string, "batch.safetensors"));
  const kept = { folder: folder as string, at: { step: 3 } as StepRow, isLastUpdate };
  return replayBatch(kept, { groups, further: 0, inOrder: true }, settings, scratch as string);
}
const written = (of: readonly CreditedGroup[], step?: number) => (file: string) =>
  writeBatch(file, batchOf(of, settings), { temperature: 1, step });

it("the step's own is compared, with a step in it and as runs of before have it", async () => {
  expect(await said(written(groups, 3))).toMatchObject({ result: "same" });
  expect(await said(written(groups))).toMatchObject({ result: "same" });
  expect(await said(written([groupOf(5)], 3))).toMatchObject({ result: "differs" });
  expect(await said(written([groupOf(5)]))).toMatchObject({ result: "differs" });
  expect(await said((file) => writeFileSync(file, "half"))).toMatchObject({ result: "differs" });
});

it("that of an update that was interrupted is none of the step's, and accuses nobody", async () => {
  const check = await said(written([groupOf(5)], 4));
  expect(check).toEqual({
    ...{ part: "batch", result: "skipped" },
    text: "a run keeps the batch of its last update alone, and has that of step 4",
  });
});

it("that of another step of the run is skipped", async () => {
  expect(await said(written([groupOf(5)], 5), false)).toMatchObject({ result: "skipped" });
  expect(await said(written([groupOf(5)]), false)).toMatchObject({ result: "skipped" });
  expect(await said(() => undefined)).toMatchObject({ result: "skipped" });
});

it("the first and the newest step are replayed, one or all where they are asked for", () => {
  expect(stepsToReplay(undefined, 3, "run")).toEqual([1, 3]);
  expect(stepsToReplay(undefined, 1, "run")).toEqual([1]);
  expect([2, 3].map((step) => stepsToReplay(String(step), 3, "run"))).toEqual([[2], [3]]);
  expect(stepsToReplay("all", 3, "run")).toEqual([1, 2, 3]);
  expect(() => stepsToReplay("4", 3, "run")).toThrow("there is no step 4 to replay: run has steps 1 to 3");
  expect(() => stepsToReplay("all", 0, "run")).toThrow("there is no step 1 to replay: run has no step yet");
});

it("the learning rate is that of the step by the run's schedule, also where the run was given more steps since", () => {
  const falling = { learningRate: 1e-3, finalLearningRate: 1e-4, warmup: 2 };
  const result = (schedule: typeof falling, step: number, steps: number, rate: number) =>
    replayRate({ step, metrics: { learning_rate: rate } } as StepRow, { ...schedule, steps }).result;
  for (const schedule of [falling, { ...falling, finalLearningRate: 1e-3 }]) {
    for (const step of [1, 2, 3, 7, 10]) {
      const rate = rateOfStep(schedule, step, 10);
      expect(result(schedule, step, 10, rate)).toBe("same");
      const depends = step > 1 && schedule === falling;
      expect(result(schedule, step, 25, rate)).toBe(depends ? "skipped" : "same");
      expect(result(schedule, step, 10, 1.001 * rate)).toBe("differs");
      expect(result(schedule, step, 10, 0)).toBe("differs");
    }
  }
});

const run = { reward: "task", control: "none", advantages: "grpo", stdFloor: 0.1, maskTruncated: false, rest: 0 };
const asked = { ...run, groupsPerStep: 2, refill: 2, seed: 1 } as unknown as RunSettings;
const scenarios = ["a", "b", "c", "d", "e", "test"].map((id) => ({
  ...{ id, split: id === "test" ? ("test" as const) : ("train" as const), question: "?" },
}));

/** Step 1 as it is stored: of each scenario the last member was played first, and a tool failed where there is no reward. */
function storedOf(groups: readonly (readonly [scenario: string, rewards: readonly (number | null)[]])[]): KeptStep {
  const rollouts = groups.flatMap(([id, rewards], group) =>
    rewards.map((reward, member) => {
      const scenario = scenarios.find((one) => one.id === id);
      const played = trajectoryOf({ ...(scenario ? { scenario } : {}), index: member, seed: 9 * group + member });
      const trajectory = reward === null ? { ...played, end: "tool_failure" as const } : played;
      return { id: 10 * group - member, scenario: id, member, trainingReward: reward, trajectory };
    }),
  );
  return { at: { step: 1 }, rollouts, played: [], difficulty: [] } as unknown as KeptStep;
}

it("a step's groups are those of the update, in its order, with those that replaced others", () => {
  const sampler = new ScenarioSampler(scenarios, asked);
  const [first, second] = sampler.next(1, [], 2).map(({ id }) => id) as [string, string];
  const replay = (...groups: Parameters<typeof storedOf>[0]) =>
    replayedGroups(storedOf(groups), { task: { scenarios }, settings: asked } as never);
  const flat = replay([first, [1, 1]], [second, [0, 1]]).groups;
  const [third] = sampler.next(1, flat, 2).map(({ id }) => id) as [string];

  const { groups, further, inOrder } = replay([second, [0, 1]], [third, [0, 1, 1]], [first, [1, 1]]);
  expect({ further, inOrder }).toEqual({ further: 1, inOrder: true });
  const members = groups.map((group) => group.members.map(({ trajectory }) => trajectory));
  expect(members.map(([one]) => one?.scenario.id)).toEqual([first, second, third]);
  expect(members.map((group) => group.map(({ index }) => index))).toEqual([
    [0, 1],
    [0, 1],
    [0, 1, 2],
  ]);
  expect(groups.map(({ members }) => members.map(({ advantage }) => Math.sign(advantage)))).toEqual([
    [0, 0],
    [-1, 1],
    [-1, 1, 1],
  ]);
  expect(replay([first, [1, null]], [second, [0, 1]]).groups[0]).toMatchObject({ tooFew: true, hasSignal: false });

  // A program's own choice, in the order in which it was stored.
  const others = scenarios.map(({ id }) => id).filter((id) => ![first, second, "test"].includes(id));
  const chosen = replay([others[1] as string, [0, 1]], [others[0] as string, [0, 1]]);
  expect(chosen).toMatchObject({ inOrder: false, further: 0 });
  expect(chosen.groups.map(({ members: [one] }) => one?.trajectory.scenario.id)).toEqual([others[1], others[0]]);
});

it("a task that rewards otherwise now is told of by a rollout of each reward, unless a control trains", async () => {
  const played = [...Array(8).fill(0), 1].map((reward, index) => trajectoryOf({ index, reward }));
  const store = { lastStep: () => ({ step: 1 }) as StepRow, rollouts: () => played };
  const own = { open: () => undefined, close: () => undefined, reward: () => ({ reward: 0 }) };
  const told = (settings: object) =>
    rewardsChanged(store, { settings: { ...asked, task: "mine.ts", ...settings }, task: { task: own } } as never);
  expect(await told({})).toMatch(/1 of 8 rollouts: of \S+ it is 0 now and was 1; if you changed mine\.ts, give --run/);
  expect(await told({ control: "random-reward" })).toBeUndefined();
});
