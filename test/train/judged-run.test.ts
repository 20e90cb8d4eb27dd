/** Training on a judge's scores: the real loop and the real judge, with a policy and a learner that need no model. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { GroupReward } from "../../src/core/reward/reward.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import type { Run } from "../../src/core/run/run.js";
import type { Scenario } from "../../src/core/task/task.js";
import type { PlayRequest, PlayResult } from "../../src/core/train/parts.js";
import { Random } from "../../src/core/util/random.js";
import { JudgeClient, JudgeStopped } from "../../src/judge/client.js";
import { Judge } from "../../src/judge/judge.js";
import type { Clock } from "../../src/judge/limits.js";
import { judgeLaps, rulerReward } from "../../src/judge/reward/judged.js";
import { ScenarioSampler } from "../../src/trainer/sampler.js";
import { clientSettings, fastClock, ruler, sleepersClock } from "../judge/support/judging.js";
import { startLyingJudge } from "../judge/support/lying.js";
import {
  type ChatServer,
  completion,
  honest,
  type Reply,
  type Request,
  scoresText,
  startServer,
} from "../judge/support/server.js";
import { type FakeParts, FakePolicy, openFake, partsOf, settings, silent, train } from "./support/fakes.js";

let base: string;
const servers: ChatServer[] = [];
const open: Run[] = [];

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "hone-judged-"));
});
afterEach(async () => {
  for (const run of open.splice(0)) run.close();
  for (const server of servers.splice(0)) await server.close();
  rmSync(base, { recursive: true });
});

async function serve(answer: (request: Request, index: number) => Reply | Promise<Reply>, port?: number) {
  const server = await startServer(answer, port);
  servers.push(server);
  return server;
}
const truth = (request: Request) => completion(scoresText(honest(request)));

const many: readonly Scenario[] = Array.from({ length: 60 }, (_, i) => ({
  id: `s${i}`,
  split: i < 50 ? "train" : "test",
  question: `What is ${i}?`,
}));

/** What a rollout is worth, as it says itself in its last message, where only the judge reads it. */
const worthOf = ({ scenario, index }: Trajectory) => new Random("worth", scenario.id, index).integer(0, 1000) / 1000;

/** Rollouts that tell the judge what they are worth. */
class TellingPolicy extends FakePolicy {
  override play(request: PlayRequest): Promise<PlayResult> {
    const tell = (trajectory: Trajectory): Trajectory => {
      const [question, answer] = trajectory.messages as [Trajectory["messages"][0], Trajectory["messages"][0]];
      const content = `${answer.content}, quality ${worthOf(trajectory)}`;
      return { ...trajectory, messages: [question, { role: "assistant", content }] };
    };
    const told = new Map<string, Trajectory>(request.have.map((one) => [one.id, one]));
    const of = (one: Trajectory) => told.get(one.id) ?? (told.set(one.id, tell(one)).get(one.id) as Trajectory);
    return super
      .play({
        ...request,
        onTrajectory: (one) => request.onTrajectory(of(one)),
        onGroup: (group) => request.onGroup?.(group.map(of)),
      })
      .then((played) => ({ ...played, groups: played.groups.map((group) => group.map(of)) }));
  }
}

interface Judged {
  readonly url: string;
  readonly groups?: number;
  readonly steps?: number;
  readonly signal?: AbortSignal;
  readonly patience?: number;
  readonly onReward?: (group: readonly Trajectory[], reward: GroupReward) => void;
  readonly learner?: FakeParts["learner"];
  readonly pace?: () => Promise<unknown>;
  /** The judge's. */
  readonly clock?: Clock;
}

/** Trains a run under `base` on the judge at `url`, from wherever it stands. */
async function trainJudged({ url, groups = 5, steps = 2, patience = 300, clock = fastClock(50), ...more }: Judged) {
  const { signal, onReward, learner, pace } = more;
  const run = await openFake(join(base, "run"));
  open.push(run);
  const said: string[] = [];
  const client = new JudgeClient(
    { ...clientSettings, url, patience, timeout: 2, log: (text) => said.push(text) },
    run.store.judgeSpending(),
    clock,
  );
  const judge = new Judge(client, run.store.verdicts());
  const stop = signal ?? new AbortController().signal;
  const onSpent = () => run.store.saveJudgeSpending(client.usage());
  const rewards: { group: readonly Trajectory[]; reward: GroupReward; playedBefore: number }[] = [];
  const policy = new TellingPolicy();
  if (pace) policy.pace = pace;
  const parts = partsOf(run, {
    ...(learner ? { learner } : {}),
    settings: {
      steps,
      groupSize: 4,
      validateEvery: 0,
      validateN: 1,
      advantages: { ...settings.advantages, spreadFloor: 0.05 },
    },
    change: {
      scenarios: new ScenarioSampler(many, { groupsPerStep: groups, seed: 3 }),
      rewardGroup: rulerReward({ judge, signal: stop, onSpent }, ruler, () => undefined),
      judgeLap: judgeLaps(judge),
      signal: stop,
      view: {
        ...silent,
        rewarded: (group, reward) => {
          rewards.push({ group, reward, playedBefore: policy.played.length });
          onReward?.(group, reward);
        },
      },
    },
  });
  const ended = await train({ ...parts, policy }).then(
    () => undefined,
    (error: Error) => error,
  );
  await parts.updater.close();
  onSpent();
  const spending = run.store.judgeSpending();
  open.splice(open.indexOf(run), 1);
  run.close();
  return { ended, rewards, said, usage: client.usage(), spending, played: policy.played, cached: judge.cached };
}

function rows(sql: string) {
  const database = new Database(join(base, "run", "run.sqlite"), { readonly: true });
  try {
    return database.prepare(sql).all() as Record<string, unknown>[];
  } finally {
    database.close();
  }
}

describe("training on a judge that lies in 30 % of its answers", () => {
  it("goes through 50 groups: every score on its own rollout, every lost group counted, the bill right", async () => {
    const judge = await startLyingJudge(1, 0.3);
    servers.push(judge);
    const { ended, rewards, usage, spending } = await trainJudged({ url: judge.url, groups: 50, steps: 1 });
    expect(ended).toBeUndefined();
    expect(rewards).toHaveLength(50);
    const lost: Record<string, number> = {};
    for (const { group, reward } of rewards) {
      if (reward.kind === "rewarded") expect(reward.rewards).toEqual(group.map(worthOf));
      else if (reward.kind === "no_verdict") lost[reward.reason] = (lost[reward.reason] ?? 0) + 1;
    }
    const [{ metrics = "" } = {}] = rows("SELECT metrics FROM steps WHERE step = 1");
    expect(JSON.parse(String(metrics))).toMatchObject({
      groups: 50,
      groups_no_verdict: lost,
      training_n: 4 * (50 - sum(lost)),
    });
    // What trained is what the judge said of that very rollout; lost groups trained nothing.
    const trained = rows(
      "SELECT scenario, member, training_reward r, explanation e FROM rollouts WHERE phase = 'train'",
    );
    expect(trained).toHaveLength(200);
    for (const { scenario, member, r, e } of trained) {
      const worth = worthOf({ scenario: { id: scenario }, index: member } as Trajectory);
      if (r !== null) expect([r, e]).toEqual([worth, `quality ${worth}`]);
    }
    expect(trained.filter(({ r }) => r === null)).toHaveLength(4 * sum(lost));

    expect(sum(judge.told) - judge.told.truth).toBeGreaterThan(10);
    expect(usage.requests).toBe(judge.requests.length);
    expect(usage).toMatchObject({ prompt_tokens: judge.billed.prompt, completion_tokens: judge.billed.completion });
    expect(spending).toEqual(usage);
  });

  it("loses groups, and says why, when it lies nearly always", async () => {
    const judge = await startLyingJudge(2, 0.8);
    servers.push(judge);
    const { ended, rewards } = await trainJudged({ url: judge.url, groups: 40, steps: 1 });
    expect(ended).toBeUndefined();
    const lost = rewards.flatMap(({ reward }) => (reward.kind === "no_verdict" ? [reward.reason] : []));
    expect(lost.length).toBeGreaterThan(8);
    expect(new Set(lost).size).toBeGreaterThan(3);
    for (const { group, reward } of rewards) {
      if (reward.kind === "rewarded") expect(reward.rewards).toEqual(group.map(worthOf));
    }
  });
});

const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((total, n) => total + n, 0);

describe("judging in the loop", () => {
  it("begins with each group that is complete, while others are played", async () => {
    const { url } = await serve(truth);
    let asked = 0;
    let judged = 0;
    // Four rollouts a group. Each waits for the verdicts of all complete groups but two: if judging began only after the
    // rollouts, this would wait for ever.
    const pace = async () => {
      const complete = Math.floor(asked++ / 4);
      while (judged < complete - 2) await new Promise((resolve) => setTimeout(resolve, 1));
    };
    const onReward = () => void judged++;
    const { rewards, played } = await trainJudged({ url, groups: 10, steps: 1, pace, onReward });
    expect(rewards).toHaveLength(10);
    const before = played.findIndex((line) => line.includes("/train"));
    const early = rewards.filter(({ playedBefore }) => playedBefore - before < 40);
    expect(early.length).toBeGreaterThanOrEqual(7);
  });

  it("waits for a judge that is down for a minute, and goes on", async () => {
    const { port, close, url } = await serve(truth);
    await close();
    servers.splice(0);
    const asleep = sleepersClock();
    let back: Promise<unknown> | undefined;
    const clock: Clock = {
      now: () => asleep.now(),
      async sleep(milliseconds, signal) {
        await asleep.sleep(milliseconds, signal);
        if (asleep.time < 60_000) return;
        back ??= serve(truth, port);
        await back;
      },
    };
    const { ended, said, rewards } = await trainJudged({ url, groups: 3, steps: 1, clock });
    expect(ended).toBeUndefined();
    expect(rewards.map(({ reward }) => reward.kind)).toEqual(["rewarded", "rewarded", "rewarded"]);
    expect(said[0]).toMatch(/does not answer \(.*ECONNREFUSED.*\); waiting up to 300 s/);
    expect(said.at(-1)).toMatch(/answers again/);
  });

  it("stops for one that stays down, and later goes on with the verdicts it has, and pays for none twice", async () => {
    const asked = await serve((request, index) =>
      index < 2 ? truth(request) : { status: 503, json: { error: { message: "gone" } } },
    );
    const first = await trainJudged({ url: asked.url, groups: 5, steps: 1, patience: 30, clock: sleepersClock() });
    expect(first.ended).toBeInstanceOf(JudgeStopped);
    const [, silent] =
      /cannot be asked: it has not answered for (\d+) s \(--judge-patience\): 503 gone/.exec(
        first.ended?.message ?? "",
      ) ?? [];
    expect(Number(silent)).toBeGreaterThanOrEqual(30);
    expect(first.rewards).toHaveLength(2);
    expect(rows("SELECT count(*) n FROM verdicts")).toEqual([{ n: 2 }]);
    // The last ones were called back as the judge was given up: they may not have arrived.
    const sent = first.spending?.requests ?? 0;
    expect(sent).toBeGreaterThanOrEqual(asked.requests.length);
    expect(sent).toBeLessThanOrEqual(asked.requests.length + 2);
    const { port } = asked;
    await asked.close();
    servers.splice(0);
    // Until the connections to it are known to be closed: a request into one of them would count as sent.
    await new Promise((resolve) => setTimeout(resolve, 200));

    const back = await serve(truth, port);
    const second = await trainJudged({ url: back.url, groups: 5, steps: 1 });
    expect(second.ended).toBeUndefined();
    expect(second.cached).toBe(2);
    expect(back.requests).toHaveLength(3);
    // Rollouts that were saved are not played again.
    const twice = first.played.filter((line) => second.played.includes(line) && line.includes("/train"));
    expect(twice).toEqual([]);
    expect(second.spending?.requests).toBe(sent + 3);
  });

  it("interrupted while it waits for verdicts keeps those that came", async () => {
    const stop = new AbortController();
    const kept = () => Number(rows("SELECT count(*) n FROM verdicts")[0]?.n);
    const hanging = await serve(async (request, index) => {
      if (index < 2) return truth(request);
      // Until both verdicts are kept.
      while (kept() < 2) await new Promise((resolve) => setTimeout(resolve, 5));
      stop.abort();
      return { hang: true };
    });
    const first = await trainJudged({ url: hanging.url, groups: 4, steps: 1, signal: stop.signal });
    expect(first.ended?.message).toMatch(/^interrupted in step 1; what was finished is kept/);
    expect(rows("SELECT count(*) n FROM verdicts")).toEqual([{ n: 2 }]);
  });

  it("asks nothing about groups whose rollouts are all alike", async () => {
    const { url, requests } = await serve(truth);
    const judge = new Judge(new JudgeClient({ ...clientSettings, url }), undefined);
    const reward = rulerReward(
      { judge, signal: new AbortController().signal, onSpent: () => undefined },
      ruler,
      () => undefined,
    );
    const alike = Array.from({ length: 4 }, (_, index) => ({ ...one, index }));
    expect(await reward(alike, 1)).toEqual({ kind: "alike" });
    expect(requests).toHaveLength(0);
  });

  it("stops when three steps in a row have no verdict at all", async () => {
    const { url } = await serve(() => completion("I would rather not."));
    const { ended } = await trainJudged({ url, steps: 9 });
    expect(ended?.message).toMatch(
      /no verdict that can be used in 3 steps in a row \(the last: not_json 5\)\.\n.*--debug-judge/,
    );
  });
});

const one = {
  messages: [
    { role: "user", content: "What?" },
    { role: "assistant", content: "that" },
  ],
  end: "no_tool_call",
  turns: 1,
  scenario: many[0],
} as unknown as Trajectory;
