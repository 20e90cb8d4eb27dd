/** A judge that hone runs itself: hone's own tiny model, which answers in form, whatever it says. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { optionsOf } from "../../src/core/config/config.js";
import type { VerdictCache } from "../../src/core/run/verdicts.js";
import { judgeCorrectness } from "../../src/judge/correctness.js";
import type { Judge } from "../../src/judge/judge.js";
import { judgeGate } from "../../src/judge/judge-gate.js";
import { runsHere } from "../../src/judge/judging-options.js";
import { openJudge } from "../../src/judge/reward/judge.js";
import { requireJudge } from "../../src/judge/reward/judge-options.js";
import {
  type LocalJudge,
  type LocalJudgePlan,
  openLocalJudge,
  planLocalJudge,
} from "../../src/judge/reward/local-judge.js";
import { judgeGroup } from "../../src/judge/ruler.js";
import { groupOf } from "../judge/support/judging.js";
import { loadConfig } from "../support/config.js";

const { signal } = new AbortController();
const nothing = () => undefined;
const claim = { question: "Which city?", golden: "Atlanta", given: "It is Atlanta." };

const configOf = (flags: Record<string, unknown> = {}) =>
  loadConfig(optionsOf("judge"), { flags: { judgeModel: "tiny", gpu: "off", ...flags }, folder: null });

describe("a judge that hone runs", () => {
  let plan: LocalJudgePlan;
  let local: LocalJudge;
  let judge: Judge;
  const kept = new Map<string, unknown>();
  const cache: VerdictCache = { get: (key) => kept.get(key), put: (key, verdict) => void kept.set(key, verdict) };

  beforeAll(async () => {
    const config = await configOf({ judgeMaxTokens: 200 });
    plan = await planLocalJudge(config, nothing);
    local = await openLocalJudge(plan, config, false, nothing);
    judge = openJudge(config, "this", cache, undefined, nothing, local);
  });
  afterAll(() => local?.close());

  it("answers in the form that is asked for, without a repair, and at no cost", async () => {
    expect(await judgeCorrectness(claim, judge, signal)).toEqual({
      reasoning: expect.any(String),
      accept: expect.any(Boolean),
    });
    expect(judge.client.usage()).toMatchObject({ requests: 1, cost: 0 });
  });

  it("scores every attempt of a group at once: its answers cannot lack an id, leave the range or be cut off", async () => {
    const settings = { rubric: "better is better", votes: 2, seed: 1, inputTokens: 32_000, tools: [] };
    const drawn = openJudge(await configOf({ judgeTemperature: 3 }), "this", cache, undefined, nothing, local);
    const { scores, votes } = await judgeGroup(groupOf([0.25, 0.5, 0.75, 1]), drawn, settings, signal);
    // At this temperature a model left free writes none of it: one answer each, and no correction.
    expect(votes.map(({ exchanges }) => exchanges.map(({ problem }) => problem))).toEqual([[undefined], [undefined]]);
    expect(scores).toHaveLength(4);
    for (const { score } of scores ?? []) expect(score >= 0 && score <= 1).toBe(true);
    expect(drawn.client.usage().completion_tokens).toBeLessThanOrEqual(2 * plan.answerTokens);
  });

  it("serves nobody else on this machine", async () => {
    const models = (key: string) => fetch(`${local.url}/models`, { headers: { authorization: `Bearer ${key}` } });
    expect((await models("guess")).status).toBe(401);
    expect((await models(local.key)).status).toBe(200);
  });

  it("wakes for a question, sleeps again, and its verdicts are those of its weights wherever it listens", async () => {
    await local.sleep();
    const asleep = judgeCorrectness({ ...claim, given: "It is Boston." }, judge, signal);
    await expect(asleep).resolves.toMatchObject({ accept: expect.any(Boolean) });
    const config = await configOf({ judgeMaxTokens: 200 });
    await local.sleep();
    await local.close();
    local = await openLocalJudge(plan, config, false, nothing);
    const again = openJudge(config, "this", cache, undefined, nothing, local);
    await judgeCorrectness(claim, again, signal);
    expect([again.cached, again.client.usage().requests]).toEqual([1, 0]);
    judge = openJudge(config, "this", undefined as never, undefined, nothing, local);
  });

  it("is asked no longer question than its context holds: tool results are shortened to it", async () => {
    const [one, other] = groupOf([0.25, 0.5]);
    if (!one || !other) throw new Error("no group");
    const tool = {
      role: "tool",
      // In words of the model: a question is counted as a token for three characters.
      content: "Which mail is about the Comet review? ".repeat(1000),
      tool_call_id: "1",
    } as never;
    const long = [one, { ...other, messages: [...other.messages, tool, ...other.messages.slice(-1)] }];
    const settings = { rubric: "better is better", votes: 1, seed: 1, inputTokens: 32_000, tools: [] };
    const { votes } = await judgeGroup(long, judge, settings, signal);
    expect(votes[0]?.leftOut).toBeGreaterThan(0);
    expect((votes[0]?.material.length ?? 0) / 3).toBeLessThanOrEqual(plan.inputTokens);
    expect(votes[0]?.scores).toHaveLength(2);
  });
});

describe("the options of a judge", () => {
  it("say who runs it", () => {
    expect(runsHere({ judgeUrl: undefined, judgeModel: "tiny" })).toBe(true);
    expect(runsHere({ judgeUrl: "http://127.0.0.1:1/v1", judgeModel: "tiny" })).toBe(false);
    expect(() => requireJudge({ judgeUrl: undefined, judgeModel: undefined }, "this")).toThrow(
      /this needs a judge: give --judge-model, a model that hone runs here .*--judge-url/,
    );
    expect(() => requireJudge({ judgeUrl: undefined, judgeModel: "tiny", judgeMaxCost: 1 }, "this")).toThrow(
      "--judge-max-cost: a judge that hone runs here costs nothing",
    );
  });

  it("name a model that there is", async () => {
    const plan = async (judgeModel: string) => planLocalJudge(await configOf({ judgeModel }), nothing);
    await expect(plan("qwen2.5-0.6b")).rejects.toThrow(/--judge-model: there is no model .*did you mean qwen2.5-0.5b/);
    await expect(plan("none.gguf")).rejects.toThrow(/--judge-model: there is no file .*none\.gguf/);
  });
});

describe("the gate of a sleeping judge", () => {
  function gated(wake: () => Promise<void> = async () => undefined) {
    const log: string[] = [];
    const gate = judgeGate({
      wake: async () => {
        await wake();
        log.push("wake");
      },
      sleep: async () => void log.push("sleep"),
      onBusy: (busy) => void log.push(busy ? "busy" : "idle"),
    });
    return { gate, log };
  }

  it("lets open requests end before it sleeps, and wakes once for all that come after", async () => {
    const { gate, log } = gated();
    let end: () => void = nothing;
    const first = gate.during(() => new Promise<void>((resolve) => (end = resolve)));
    await gate.during(async () => undefined);
    const sleep = gate.sleep();
    const moment = () => new Promise((resolve) => setImmediate(resolve));
    const asked = async (n: number) => {
      log.push(`asked ${n}`);
      await moment();
    };
    const after = [1, 2].map((n) => gate.during(() => asked(n)));
    await moment();
    expect(log).toEqual(["busy"]);
    end();
    await Promise.all([first, sleep, ...after]);
    expect(log).toEqual(["busy", "idle", "sleep", "wake", "busy", "asked 1", "asked 2", "idle"]);
  });

  it("refuses requests that it cannot be woken for, and tries again at the next", async () => {
    let fails = true;
    const { gate, log } = gated(async () => {
      if (fails) throw new Error("no memory");
    });
    await gate.sleep();
    await gate.sleep();
    await expect(gate.during(async () => 1)).rejects.toThrow("no memory");
    fails = false;
    expect(await gate.during(async () => 2)).toBe(2);
    expect(log).toEqual(["sleep", "wake", "busy", "idle"]);
  });
});
