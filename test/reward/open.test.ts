/** What training and validation are given for a run's settings. */
import { afterEach, describe, expect, it } from "vitest";
import { optionsOf } from "../../src/core/config/config.js";
import type { RunSettings } from "../../src/core/run/settings.js";
import type { RunStore } from "../../src/core/run/store.js";
import { type AnyTask, defineTask } from "../../src/core/task/task.js";
import { type CreditedGroup, creditGroups } from "../../src/core/train/credit.js";
import { stepMetricsRow } from "../../src/core/train/metrics.js";
import { composeReward } from "../../src/judge/reward/compose.js";
import { openRewards } from "../../src/judge/reward/open.js";
import { type ChatServer, completion, honest, scoresText, startServer } from "../judge/support/server.js";
import { loadConfig } from "../support/config.js";
import { trajectoryOf } from "../train/support/fakes.js";

let server: ChatServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

const opened: string[] = [];
const task = defineTask<never, string>({
  name: "colours",
  scenarios: () => [],
  open: ({ seed }) => {
    opened.push(`opened ${seed}`);
    return "the env";
  },
  close: (env) => void opened.push(`closed ${env}`),
  prompt: () => [],
  reward: () => ({ reward: 0, success: false, parts: {} }),
  claim: (_, { question }) => ({ question, golden: "blue", given: "azure" }),
  shaped: (_rollout, _scenario, env, right) => ({ reward: right ? 1.5 : -1, success: right, parts: { [env]: 1 } }),
}) as unknown as AnyTask;

const composed: AnyTask = {
  ...task,
  reward: composeReward({ parts: { right: { weight: 1, score: () => 1 } }, success: "right", ruler: 0.5 }),
};

/** Two rollouts that a judge can tell apart. */
const group = [0, 1].map((index) => ({
  ...trajectoryOf({ index, reward: index }),
  messages: [{ role: "assistant" as const, content: `answer ${index}` }],
}));

async function open(asked: Partial<RunSettings>, played = task) {
  opened.length = 0;
  server = await startServer((request) =>
    completion(
      /"accept"/.test(request.bytes) ? JSON.stringify({ reasoning: "so", accept: true }) : scoresText(honest(request)),
    ),
  );
  const config = await loadConfig(optionsOf("train"), {
    flags: { judgeUrl: server.url, judgeModel: "judge" },
    folder: null,
  });
  const spent: unknown[] = [];
  const store = {
    verdicts: () => ({ get: () => undefined, put: () => undefined }),
    judgeSpending: () => undefined,
    saveJudgeSpending: (usage: unknown) => void spent.push(usage),
  } as unknown as RunStore;
  const settings = { ...config, accuracy: "task", ...asked } as unknown as RunSettings;
  const signal = new AbortController().signal;
  const about = { taskOptions: { seed: 4 }, log: () => undefined };
  return { rewards: await openRewards({ settings, config, task: played, store, signal, ...about }), spent };
}

const kindsOf = { kind: "rewarded", rewards: expect.any(Array) };

describe("the rewards of a run", () => {
  it("are the task's own, without a judge or an environment", async () => {
    const { rewards } = await open({});
    expect(await rewards.rewardGroup(group, 1)).toEqual({ kind: "rewarded", rewards: [0, 1] });
    expect([rewards.spreadFloor, rewards.grade, rewards.judgeLap]).toEqual([0, undefined, undefined]);
    await rewards.close();
    expect([opened, server?.requests.length]).toEqual([[], 0]);
  });

  it("are a ruler's scores, whose small differences are noise; held-out answers are the task's affair", async () => {
    const { rewards, spent } = await open({ reward: "ruler" });
    expect(await rewards.rewardGroup(group, 1)).toMatchObject(kindsOf);
    expect([rewards.spreadFloor, rewards.grade]).toEqual([0.05, undefined]);
    expect(rewards.judgeLap?.().requests).toBe(1);
    expect(spent).toHaveLength(1);
    await rewards.close();
    expect(opened).toEqual([]);
  });

  it("are the task's graded reward, which sees the environment and the judge's word; held-out ones too", async () => {
    const { rewards } = await open({ reward: "shaped", accuracy: "judge" });
    expect(await rewards.rewardGroup(group, 1)).toMatchObject({ kind: "rewarded", rewards: [1.5, 1.5] });
    expect(rewards.spreadFloor).toBe(0);
    expect(await rewards.grade?.(group[0] as never)).toEqual({
      kind: "graded",
      reward: { reward: 1.5, success: true, parts: { "the env": 1 } },
    });
    await rewards.close();
    expect(opened).toEqual(["opened 4", "closed the env"]);
  });

  it("are the task's composed ones with a ruler's part, which is shown beside the total", async () => {
    const { rewards } = await open({ reward: "composed" }, composed);
    const scored = await rewards.rewardGroup(group, 1);
    if (scored.kind !== "rewarded") throw new Error(`no rewards: ${scored.kind}`);
    const scores = scored.parts?.map(({ ruler }) => ruler as number) ?? [];
    expect(scores).toHaveLength(2);
    expect(scored.rewards).toEqual([0 + 0.5 * (scores[0] as number), 1 + 0.5 * (scores[1] as number)]);
    expect(scored.explanations).toHaveLength(2);
    await rewards.close();
    const [credited] = creditGroups([group], [scored], { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 });
    const row = stepMetricsRow([credited as CreditedGroup], [], 1e-3, null);
    expect(row.parts?.ruler).toEqual({ mean: ((scores[0] as number) + (scores[1] as number)) / 2, n: 2 });
  });

  it("may be the task's while a judge says whether held-out answers are right", async () => {
    const { rewards } = await open({ accuracy: "judge" });
    expect(await rewards.rewardGroup(group, 1)).toEqual({ kind: "rewarded", rewards: [0, 1] });
    expect(await rewards.grade?.(group[0] as never)).toMatchObject({ reward: { reward: 0, success: true } });
    await rewards.close();
  });

  it("are coins under the control, and held-out answers are graded all the same", async () => {
    const { rewards } = await open({ reward: "shaped", accuracy: "judge", control: "random-reward", seed: 1 });
    const coins = await rewards.rewardGroup(group, 1);
    expect(coins).toMatchObject(kindsOf);
    expect(server?.requests).toHaveLength(0);
    expect(rewards.spreadFloor).toBe(0);
    expect(await rewards.grade?.(group[0] as never)).toMatchObject({ reward: { success: true } });
    await rewards.close();
  });
});
