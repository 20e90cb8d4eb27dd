/** What is said where a run goes on with a task that rewards otherwise than before. */
import { afterEach, expect, it, vi } from "vitest";
import type { RunSettings } from "../../src/core/run/settings.js";
import { type AnyTask, defineTask, type FinishedRollout } from "../../src/core/task/task.js";
import { rescoredText } from "../../src/trainer/rescored.js";
import { trajectoryOf } from "./support/fakes.js";

afterEach(() => void vi.useRealTimers());

const opened: string[] = [];
const settings = { task: "/tasks/plural.ts", control: "none", reward: "task", accuracy: "task" } as RunSettings;

const taskThat = (reward: (rollout: FinishedRollout) => number | Promise<number>, more: object = {}) =>
  ({
    ...defineTask({
      name: "plural",
      scenarios: () => [],
      open: () => void opened.push("opened"),
      close: () => void opened.push("closed"),
      prompt: () => [],
      reward: async (rollout) => ({ reward: await reward(rollout), success: false, parts: {} }),
    }),
    ...more,
  }) as unknown as AnyTask;

/** The first 60 of 64 rollouts of step 16 had the reward 0, the others 0.1. */
const kept = Array.from({ length: 64 }, (_, index) => ({
  ...trajectoryOf({ index, reward: index < 60 ? 0 : 0.1 }),
  messages: [{ role: "assistant" as const, content: index < 60 ? "no" : "nearly" }],
}));
const store = {
  lastStep: () => ({ step: 16, checkpoint: 16, adapter: "ab", metrics: null, timing: null }),
  rollouts: (phase: string, step: number) => (phase === "train" && step === 16 ? kept : []),
};

function said(task: AnyTask, changed: Partial<RunSettings> = {}, servers?: never) {
  opened.length = 0;
  const options = { home: "", seed: 1 };
  return rescoredText(store, { task: { task, options, servers }, settings: { ...settings, ...changed } });
}

const nearly = (value: number) => taskThat(({ messages }) => (messages[0]?.content === "nearly" ? value : 0));

it("says nothing where the rewards are those of the step, and closes the task's environment", async () => {
  expect(await said(nearly(0.1))).toBeUndefined();
  expect(opened).toEqual(["opened", "closed"]);
});

it("sees another reward for few of the rollouts: those that it tries have all rewards that there were", async () => {
  expect(await said(nearly(0.2))).toBe(
    "plural.ts rewards 4 of 8 rollouts of step 16 otherwise than before: if you changed it, give --run NAME for a new run, since old and new rewards are compared to choose the best checkpoint",
  );
});

it("says that rewarding fails, and how often, in the same line", async () => {
  const failing = taskThat(({ messages }) => {
    if (messages[0]?.content === "nearly") throw new Error("no such word");
    return 1;
  });
  expect(await said(failing)).toMatch(
    /^plural.ts rewards 4 of 8 rollouts of step 16 otherwise than before and fails to reward 4 of 8 rollouts of step 16 again \(no such word\): if/,
  );
  const closed = taskThat(() => 0, { open: () => Promise.reject(new Error("no words.txt")) });
  expect(await said(closed)).toMatch(
    /^plural.ts fails to reward 8 of 8 rollouts of step 16 again \(no words.txt\): if/,
  );
});

it("does not wait for a reward that takes its time", async () => {
  vi.useFakeTimers();
  let answer = (_: number): void => undefined;
  const saying = said(taskThat(() => new Promise<number>((resolve) => (answer = resolve))));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await saying).toBeUndefined();
  expect(opened).toEqual(["opened"]);
  answer(1);
  await vi.advanceTimersByTimeAsync(0);
  expect(opened).toEqual(["opened", "closed"]);
});

it.each([
  ["a judge rewards", {}, { reward: "ruler" }],
  ["a judge decides what is right", {}, { accuracy: "judge" }],
  ["coins do", {}, { control: "random-reward" }],
  ["a program does", {}, { reward: "program" }],
  ["the task plays itself", { rollout: () => undefined }, {}],
] as const)("does not reward again where %s", async (_, more, changed) => {
  expect(
    await said(
      taskThat(() => 1, more),
      changed as Partial<RunSettings>,
    ),
  ).toBeUndefined();
  expect(opened).toEqual([]);
});
