/** Set-up and tear-down of an agent's rollouts, and what they are told. */
import { beforeAll, expect, test } from "vitest";
import type { Gathered } from "../../src/core/gather/gather.js";
import { playTask, support } from "./support/playing.js";

const questions = [
  "plays",
  "set-up fails",
  "set-up rejects with nothing",
  "set-up waits for ever",
  "throws",
  "rejects with nothing",
  "tear-down fails",
];
let played: Gathered;
beforeAll(async () => {
  const scenarios = questions.map((question) => ({ id: question, split: "train" as const, question }));
  const limits = { taskSeconds: 20 };
  const asked = { step: 3, groupSize: 2, concurrency: 4, maxExceptions: 100, limits };
  played = await playTask(support("prepared.ts"), scenarios, asked);
});

const errorOf = (question: string) => played.failures.find(({ id }) => id === `${question}/1`)?.error;

test("a rollout knows its seed, its place in the group and the step, and what was set up, which is torn down at its end", () => {
  const own = played.groups.flat().filter(({ scenario }) => scenario.id === "plays");
  expect(own.map(({ index }) => index)).toEqual([0, 1]);
  for (const { seed, index, output, reward } of own) {
    expect(output?.split("\n").filter((line) => line !== "service")).toEqual([
      `[info] set up ${JSON.stringify({ seed, index, step: 3 })}`,
      `[debug] plays plays/${index} { seed: ${seed}, index: ${index}, step: 3 } true`,
      "hone-",
      `[warn] torn down plays/${index} hone- false`,
    ]);
    expect(reward.reward).toBe(0.5);
  }
});

test("an error of the set-up, or none of its ends, fails the rollout, which has nothing to tear down", () => {
  expect(errorOf("set-up fails")).toMatch(/^its set-up failed: no room; its last output:\n {2}\[info\] set up .*$/);
  expect(errorOf("set-up waits for ever")).toMatch(
    /^its set-up failed: its set-up did not end within 20 s; --task-timeout allows more; its last/,
  );
});

test("a promise that is rejected with nothing has failed as others do", () => {
  const nothing = "undefined was thrown, which is no Error; its last output:";
  expect(errorOf("set-up rejects with nothing")).toContain(`its set-up failed: ${nothing}`);
  expect(errorOf("rejects with nothing")).toContain(nothing);
});

test("what was set up is torn down where the rollout fails, too, and an error of the tear-down fails it", () => {
  expect(errorOf("throws")).toMatch(/^the agent's own; its last output:[\s\S]*\[warn\] torn down throws\/1/);
  expect(errorOf("tear-down fails")).toMatch(/^its tear-down failed: cannot remove it; its last output:/);
});
