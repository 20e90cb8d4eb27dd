/** What follows from a reward's entry in the registry. */
import { describe, expect, it } from "vitest";
import type { RunSettings } from "../../src/core/run/settings.js";
import { type AnyTask, defineTask } from "../../src/core/task/task.js";
import { composeReward } from "../../src/judge/reward/compose.js";
import { requireRewards } from "../../src/judge/reward/open.js";
import { programReward, pushesOther, rewardNamed, rewardNames, rewardsText } from "../../src/judge/reward/registry.js";
import { wordingWarning } from "../../src/judge/reward/wording.js";
import { trajectoryOf } from "../train/support/fakes.js";

const plain = defineTask({
  name: "plain",
  scenarios: () => [],
  prompt: () => [],
  reward: () => ({ reward: 0, success: false, parts: {} }),
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
  it("stands in the help", () => {
    for (const name of rewardNames)
      expect(rewardsText()).toMatch(new RegExp(`^  ${name} +${rewardNamed(name).about.slice(0, 10)}`, "m"));
  });

  it("is named rightly, or the line says what there is", async () => {
    expect(() => rewardNamed("rular")).toThrow("--reward rular: there is no such reward; did you mean ruler?");
    expect(() => rewardNamed("gold")).toThrow(`give one of ${rewardNames.join(", ")}`);
    expect(() => rewardNamed("toString")).toThrow("there is no such reward");
  });

  it("asks for a judge where it takes one, and for what it takes of the task", async () => {
    await requireRewards(settings("task"), plain);
    for (const name of rewardNames) {
      if (rewardNamed(name).judged)
        await expect(requireRewards(settings(name), name === "composed" ? composing : shaping)).rejects.toThrow(
          `--reward ${name} needs a judge`,
        );
      const fitting = name === "composed" ? composing : shaping;
      await requireRewards(settings(name, judge), fitting);
    }
    await expect(requireRewards(settings("composed", judge), shaping)).rejects.toThrow("no part for a judge");
    await expect(requireRewards(settings("program"), plain)).rejects.toThrow("the reward is a function of a program");
    const own = programReward(async () => ({ kind: "alike" }), 0);
    await requireRewards(settings("program"), composing, own);
    await expect(requireRewards(settings("task"), composing)).rejects.toThrow("train with --reward composed");
    await expect(requireRewards(settings("shaped", judge), claiming)).rejects.toThrow(
      "has no graded reward (`shaped`)",
    );
    await expect(requireRewards(settings("task", { accuracy: "judge" }), shaping)).rejects.toThrow(
      "--accuracy judge needs a judge",
    );
    await expect(requireRewards(settings("ruler", { ...judge, accuracy: "judge" }), plain)).rejects.toThrow(
      "give it a `claim`",
    );
  });

  it("other than the task's own is told apart while it trains", () => {
    const other = (name: string) => pushesOther({ reward: name, control: "none" });
    expect(rewardNames.filter((name) => !other(name))).toEqual(["task"]);
    expect([pushesOther({}), pushesOther({ reward: "task", control: "random-reward" })]).toEqual([false, true]);
  });

  it("that pays success alone gives no partial credit", async () => {
    const group = [trajectoryOf({ index: 0, reward: 1 }), trajectoryOf({ index: 1, reward: 0.9 })];
    const reward = await rewardNamed("success").open({} as never);
    expect(await reward(group, 1)).toEqual({ kind: "rewarded", rewards: [1, 0] });
  });

  it("is offered for free answers when the task has what it takes", async () => {
    const warned = (task: AnyTask) => wordingWarning({ reward: "task", accuracy: "task" }, task);
    const paid = wordingWarning({ reward: "success", accuracy: "task" }, plain);
    expect(paid).toMatch(/^warning: --reward success compares answers by their wording/);
    expect(warned(plain)).toMatch(/A judge reads them with --reward ruler$/);
    expect(warned(shaping)).toMatch(/with --reward shaped or --reward ruler; --accuracy judge for held-out answers$/);
    expect(wordingWarning({ reward: "ruler", accuracy: "task" }, shaping)).toBeUndefined();
  });

  it("with a rubric makes another run when the rubric changes", async () => {
    expect(rewardNamed("task").contents(settings("task"))).toEqual({});
    expect(Object.keys(rewardNamed("ruler").contents(settings("ruler")))).toEqual(["rubric"]);
  });
});
