/** What follows from a reward's entry in the registry. */
import { describe, expect, it } from "vitest";
import type { RunSettings } from "../../src/core/run/settings.js";
import { type AnyTask, defineTask } from "../../src/core/task/task.js";
import { composeReward } from "../../src/judge/reward/compose.js";
import { requireRewards } from "../../src/judge/reward/open.js";
import { programReward } from "../../src/judge/reward/program.js";
import { pushesOther, rewardKinds, rewardNamed, rewardsText } from "../../src/judge/reward/registry.js";
import { successKind } from "../../src/judge/reward/success.js";
import { wordingWarning } from "../../src/judge/reward/wording.js";
import { trajectoryOf } from "../train/support/fakes.js";

const plain = defineTask({
  name: "plain",
  scenarios: () => [],
  prompt: () => [],
  reward: () => ({ reward: 0, success: false, parts: {} }),
  freeAnswers: () => true,
}) as unknown as AnyTask;
const claiming: AnyTask = { ...plain, claim: () => null };
const shaping: AnyTask = { ...claiming, shaped: () => ({ reward: 0, success: false, parts: {} }) };

const composing: AnyTask = {
  ...shaping,
  reward: composeReward({ parts: { any: { weight: 1, score: () => 1 } }, success: "any", ruler: 0.3 }),
};

const settings = (reward: string, more: Partial<RunSettings> = {}) =>
  ({
    reward,
    accuracy: rewardNamed(reward).accuracy,
    judgeUrl: undefined,
    judgeModel: undefined,
    ...more,
  }) as RunSettings;
const judge = { judgeUrl: "http://127.0.0.1:9/v1", judgeModel: "j" };

describe("a reward in the registry", () => {
  it("has a name of its own and stands in the help", () => {
    const names = rewardKinds.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const { name, about } of rewardKinds)
      expect(rewardsText()).toMatch(new RegExp(`^  ${name} +${about.slice(0, 10)}`, "m"));
  });

  it("is named rightly, or the line says what there is", () => {
    expect(() => rewardNamed("rular")).toThrow("--reward rular: there is no such reward; did you mean ruler?");
    expect(() => rewardNamed("gold")).toThrow(`give one of ${rewardKinds.map(({ name }) => name).join(", ")}`);
  });

  it("asks for a judge where it takes one, and for what it takes of the task", () => {
    expect(() => requireRewards(settings("task"), plain)).not.toThrow();
    for (const { name, judged } of rewardKinds) {
      if (judged)
        expect(() => requireRewards(settings(name), name === "composed" ? composing : shaping)).toThrow(
          `--reward ${name} needs a judge`,
        );
      const fitting = name === "composed" ? composing : shaping;
      expect(() => requireRewards(settings(name, judge), fitting)).not.toThrow();
    }
    expect(() => requireRewards(settings("composed", judge), shaping)).toThrow("no part for a judge");
    expect(() => requireRewards(settings("program"), plain)).toThrow("the reward is a function of a program");
    const own = programReward(async () => ({ kind: "alike" }), 0);
    expect(() => requireRewards(settings("program"), composing, own)).not.toThrow();
    expect(() => requireRewards(settings("task"), composing)).toThrow("train with --reward composed");
    expect(() => requireRewards(settings("shaped", judge), claiming)).toThrow("has no graded reward (`shaped`)");
    expect(() => requireRewards(settings("task", { accuracy: "judge" }), shaping)).toThrow(
      "--accuracy judge needs a judge",
    );
    expect(() => requireRewards(settings("ruler", { ...judge, accuracy: "judge" }), plain)).toThrow(
      "give it a `claim`",
    );
  });

  it("other than the task's own is told apart while it trains", () => {
    const other = (name: string) => pushesOther({ reward: name, control: "none" });
    expect(rewardKinds.filter(({ name }) => !other(name)).map(({ name }) => name)).toEqual(["task"]);
    expect([pushesOther({}), pushesOther({ reward: "task", control: "random-reward" })]).toEqual([false, true]);
  });

  it("that pays success alone gives no partial credit", async () => {
    const group = [trajectoryOf({ index: 0, reward: 1 }), trajectoryOf({ index: 1, reward: 0.9 })];
    const reward = await successKind.open({} as never);
    expect(await reward(group, 1)).toEqual({ kind: "rewarded", rewards: [1, 0] });
  });

  it("is offered for free answers when the task has what it takes", () => {
    const warned = (task: AnyTask) => wordingWarning({ reward: "task", accuracy: "task" }, task, []);
    const paid = wordingWarning({ reward: "success", accuracy: "task" }, plain, []);
    expect(paid).toMatch(/^warning: --reward success compares answers by their wording/);
    expect(warned(plain)).toMatch(/A judge reads them with --reward ruler$/);
    expect(warned(shaping)).toMatch(/with --reward shaped or --reward ruler; --accuracy judge for held-out answers$/);
    expect(wordingWarning({ reward: "ruler", accuracy: "task" }, shaping, [])).toBeUndefined();
  });

  it("with a rubric makes another run when the rubric changes", () => {
    expect(rewardNamed("task").contents(settings("task"))).toEqual({});
    expect(Object.keys(rewardNamed("ruler").contents(settings("ruler")))).toEqual(["rubric"]);
  });
});
