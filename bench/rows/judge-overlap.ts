/**
 * Cost of a slow judge for a step: verdicts arrive while other groups are played, and only the last ones are waited
 * for. So the cost is at most the time of one verdict, and its share depends on the duration of the rollouts.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import { GroupWork } from "../../src/core/reward/group-work.js";
import type { GroupReward, RewardGroup } from "../../src/core/reward/reward.js";
import type { Scenario } from "../../src/core/task/task.js";
import { buildMailDatabase } from "../../src/email/building/build.js";
import { emailTask } from "../../src/email/email-task.js";
import { openMailDatabase } from "../../src/email/reader.js";
import { modelFile } from "../../src/engine/models.js";
import { Cap } from "../../src/judge/budget.js";
import { JudgeClient } from "../../src/judge/client.js";
import { Judge } from "../../src/judge/judge.js";
import { rulerReward } from "../../src/judge/reward/judged.js";
import { taskReward } from "../../src/judge/reward/registry.js";
import { rubricOf } from "../../src/judge/reward/rubric.js";
import { EnginePolicy } from "../../src/machine/play/engine-policy.js";
import { ScenarioSampler } from "../../src/trainer/sampler.js";
import { compare, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, BenchContext, Row } from "../row.js";
import { knowingScore, type ScriptedJudge, startScriptedJudge } from "../scripted-judge.js";

const GROUPS = 8;
const GROUP = 8;
const SEQUENCES = 16;
const CONTEXT = 2048;
/** Seconds that the judge takes for a verdict. */
const JUDGE = 2;

/** Milliseconds until every group of a step is played and has its rewards. */
async function stepTime(policy: EnginePolicy, scenarios: readonly Scenario[], reward: RewardGroup): Promise<number> {
  const started = performance.now();
  const rewarding = new GroupWork<GroupReward>((group) => reward(group, 1));
  const { groups } = await policy.play({
    seedName: "bench",
    step: 1,
    scenarios,
    groupSize: GROUP,
    have: [],
    signal: new AbortController().signal,
    onTrajectory: () => undefined,
    onGroup: (group) => rewarding.begin(group),
  });
  const rewards = await rewarding.all(groups, { kind: "rewarded", rewards: [] });
  const noVerdict = rewards.filter(({ kind }) => kind === "no_verdict").length;
  if (noVerdict > 0) throw new Error(`${noVerdict} groups have no verdict`);
  return performance.now() - started;
}

function policyOf(engine: LocalEngine, db: string, maxTokens: number): EnginePolicy {
  const { model, threads, gpu, sequences, contextPerSequence } = engine.info;
  const options: LocalEngineOptions = { model, threads, gpu, sequences, contextPerSequence };
  return new EnginePolicy(engine, {
    settings: {
      task: "email",
      taskOptions: { db },
      player: { kind: "engine", engine: options, sampling: { temperature: 1 }, adapter: null },
      limits: {
        maxTurns: 10,
        maxTokens,
        turnSeconds: 120,
        toolSeconds: 30,
        rolloutSeconds: 600,
        onToolError: "observe",
      },
    },
    concurrency: SEQUENCES,
    maxExceptions: 0,
    releaseWeights: false,
    onFailure: () => undefined,
    log: () => undefined,
  });
}

function judgedBy(server: ScriptedJudge): RewardGroup {
  const client = new JudgeClient({
    url: server.url,
    model: "scripted",
    key: undefined,
    temperature: undefined,
    maxTokens: undefined,
    timeout: 60,
    patience: 60,
    concurrency: GROUPS,
    price: null,
    cap: new Cap(undefined),
    log: () => undefined,
  });
  const settings = { rubric: rubricOf(undefined), votes: 1, seed: 1, inputTokens: 32_000, tools: [] };
  const context = {
    // Without a cache, so that every round asks again.
    judge: new Judge(client, undefined),
    signal: new AbortController().signal,
    onSpent: () => undefined,
  };
  return rulerReward(context, settings, () => undefined);
}

/** Both sides on one model. `maxTokens`: of a turn. */
async function overlap(context: BenchContext, db: string, model: string, maxTokens: number): Promise<Row> {
  const mail = openMailDatabase(db);
  const engine = await context.load({ model, sequences: SEQUENCES, contextPerSequence: CONTEXT });
  const server = await startScriptedJudge({ score: knowingScore(mail), seconds: JUDGE });
  try {
    const policy = policyOf(engine, db, maxTokens);
    const scenarios = new ScenarioSampler(await emailTask.scenarios({ db }), { groupsPerStep: GROUPS, seed: 1 }).next(
      1,
      [],
      0,
    );
    await stepTime(policy, scenarios.slice(0, 1), taskReward);
    const judged = judgedBy(server);
    const row = {
      name: "judge/overlap",
      model: modelName(model),
      sequences: SEQUENCES,
      unit: "ms",
      target: `ratio >= ${(1 / 1.15).toFixed(2)}`,
      note: `ours: rollouts of ${GROUPS} groups of ${GROUP} and all verdicts; theirs: the rollouts alone, with the task's own reward`,
    } as const;
    const sides = {
      ours: () => stepTime(policy, scenarios, judged),
      theirs: () => stepTime(policy, scenarios, taskReward),
    };
    return await compare(context, row, "less", sides);
  } finally {
    await server.close();
    await engine.close();
    mail.close();
  }
}

export const bench: Bench = {
  name: "judge/overlap",
  about: `a step of ${GROUPS} groups with a judge that takes ${JUDGE} s, against none`,
  models: ["0.5b"],
  async run(context) {
    const folder = mkdtempSync(join(tmpdir(), "hone-bench-"));
    const db = join(folder, "mail.db");
    try {
      await buildMailDatabase({ db, source: { kind: "synthetic", mailboxes: 20, seed: 1, names: "default" } });
      if (context.model !== undefined) return [await overlap(context, db, context.model, 256)];
      // Models with random weights never stop, so their turns are short to keep the row within a minute or two.
      return [
        await overlap(context, db, modelPath("qwen2-0.5b-shape-f16.gguf"), 24),
        await overlap(context, db, modelFile("tiny"), 256),
      ];
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};
