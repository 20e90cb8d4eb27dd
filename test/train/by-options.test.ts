/** What a step is made of, beside the run's options and the task itself. */

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunSettings } from "../../src/core/run/settings.js";
import { creditGroups } from "../../src/core/train/credit.js";
import { checkAdapterConfig } from "../../src/guards/asked.js";
import { checkCreditedBy } from "../../src/guards/credit-check.js";
import { checkPlayer } from "../../src/guards/evaluated.js";
import { promptGuard } from "../../src/guards/given.js";
import { openFake, partsOf, train, trajectoryOf } from "./support/fakes.js";

const group = [1, 0, 0.5].map((reward, index) => trajectoryOf({ index, reward }));
const options = { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 } as const;
const run = {
  ...{ advantages: "grpo", stdFloor: 0.1, maskTruncated: true, reward: "task", control: "none" },
} as unknown as RunSettings;

describe("credits, by the run's options", () => {
  const credit = (rewards: number[], played = group, maskTruncated = true) =>
    creditGroups([played], [{ kind: "rewarded", rewards }], { ...options, maskTruncated });

  it("are those of its estimator, its floor and its task", () => {
    expect(checkCreditedBy(credit([1, 0, 0.5]), options, run, false)).toBeUndefined();
    const by = (change: object) => checkCreditedBy(credit([1, 0, 0.5]), { ...options, ...change }, run, false);
    expect(by({ stdFloor: 0 })).toMatch(
      "--std-floor 0, and the run has --advantages grpo with --std-floor 0.1; the step",
    );
    expect(by({ estimator: "rloo" })).toMatch("advantages were computed by --advantages rloo");
    expect(checkCreditedBy(credit([0.5, 0, 1]), options, run, false)).toMatch("/0 earned 1, and is trained with 0.5");
  });

  it("are a program's own, a judge's or a control's where those reward", () => {
    const others = credit([0.3, 0.2, 0.1]);
    expect(checkCreditedBy(others, options, run, true)).toBeUndefined();
    expect(checkCreditedBy(others, options, { ...run, reward: "ruler" }, false)).toBeUndefined();
    expect(checkCreditedBy(others, options, { ...run, control: "random-reward" }, false)).toBeUndefined();
    expect(checkCreditedBy(others, options, { ...run, reward: "success" }, false)).toMatch("earned");
  });

  it.each(["turn_limit", "token_limit", "context_limit"] as const)(
    "are masked after a %s, if the run says so",
    (end) => {
      const cut = group.map((one) => ({ ...one, end }));
      expect(checkCreditedBy(credit([1, 0, 0.5], cut), options, run, false)).toBeUndefined();
      // Without a verdict there is nothing to mask.
      const none = creditGroups([cut], [{ kind: "no_verdict", reason: "?" }], { ...options, maskTruncated: true });
      expect(checkCreditedBy(none, options, run, false)).toBeUndefined();
      expect(checkCreditedBy(credit([1, 0, 0.5], cut, false), options, run, false)).toMatch(
        `ended by ${end} and is not masked, against --mask-truncated`,
      );
      expect(checkCreditedBy(credit([1, 0, 0.5], cut), options, { ...run, maskTruncated: false }, false)).toMatch(
        `ended by ${end} and is masked`,
      );
    },
  );
});

it("an adapter has the run's rank, scale and layers", () => {
  const wanted = { loraRank: 8, loraAlpha: 16, loraTargets: ["q_proj", "v_proj"] } as unknown as RunSettings;
  const config = { r: 8, lora_alpha: 16, target_modules: ["v_proj", "q_proj"] };
  expect(checkAdapterConfig(3, config, wanted)).toBeUndefined();
  // A layer of another name, and a pattern.
  expect(checkAdapterConfig(3, { ...config, target_modules: ["qkv_proj"] }, wanted)).toBeUndefined();
  expect(checkAdapterConfig(3, { ...config, target_modules: ".*proj" }, wanted)).toBeUndefined();
  expect(checkAdapterConfig(3, { ...config, lora_alpha: 64 }, wanted)).toMatch(
    "the adapter of step 3 has --lora-alpha 64, and the run 16; the step was taken back",
  );
  expect(checkAdapterConfig(3, { ...config, r: 4 }, wanted)).toMatch("--lora-rank 4");
  expect(checkAdapterConfig(3, { ...config, target_modules: ["q_proj"] }, wanted)).toMatch("--lora-targets q_proj");
});

describe("rollouts", () => {
  it("are those of the adapter that was to play", () => {
    const played = [trajectoryOf({ adapter: "aaaa" })];
    expect(checkPlayer(played, "aaaa")).toBeUndefined();
    expect(checkPlayer(played, null)).toMatch(/was played by the adapter aaaa, in place of the model without/);
  });

  it("are asked what the task asks of their scenario; where it asks otherwise each time nothing is said", async () => {
    let asked = 0;
    const seen = (messages: (typeof group)[0]["messages"]) => ({
      ...{
        group: [{ ...(group[0] as (typeof group)[0]), messages }],
        adapter: null,
        temperature: 1,
        seedName: "1/train",
        step: 1,
      },
    });
    const user = (content: string) => ({ role: "user" as const, content });
    const constant = promptGuard(() => [user("one")]);
    expect(await constant.afterPlay?.(seen([user("one"), { role: "assistant", content: "two" }]))).toBeUndefined();
    const found = await constant.afterPlay?.(seen([user("other")]));
    expect(found).toMatchObject({
      demand: "note",
      text: expect.stringMatching(/asked otherwise than the task asks now/),
    });
    // Once is enough.
    expect(await constant.afterPlay?.(seen([user("other")]))).toBeUndefined();
    expect(await promptGuard(() => [user(`${asked++}`)]).afterPlay?.(seen([user("other")]))).toBeUndefined();
    const failing = promptGuard(() => {
      throw new Error("the database is another thread's");
    });
    expect(await failing.afterPlay?.(seen([user("other")]))).toBeUndefined();
  });
});

it("a validation that another adapter played is not committed", async () => {
  const opened = await openFake(join(mkdtempSync(join(tmpdir(), "hone-validation-")), "run"));
  const parts = partsOf(opened);
  const play = parts.policy.play.bind(parts.policy);
  parts.policy.play = async (request) => {
    const played = await play(request);
    if (!request.seedName.endsWith("validation")) return played;
    const other = (one: (typeof group)[0]) => ({ ...one, player: { ...one.player, adapter: "another" } }) as typeof one;
    return { ...played, groups: played.groups.map((members) => members.map(other)) };
  };
  await expect(train(parts)).rejects.toThrow(/was played by the adapter another, in place of/);
  expect(opened.store.validations()).toEqual([]);
  opened.close();
});
