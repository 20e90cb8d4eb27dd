/** Opens the rewards that a run's settings name, with a judge where they need one. */

import type { Rewards } from "../../core/reward/reward.js";
import type { RunSettings } from "../../core/run/settings.js";
import type { RunStore } from "../../core/run/store.js";
import type { AnyTask, PlainOptions } from "../../core/task/task.js";
import type { Judge } from "../judge.js";
import { runsHere } from "../judging-options.js";
import type { RulerConfig } from "./judge-options.js";
import type { JudgeMachine, LocalJudge, LocalJudgePlan } from "./local-judge.js";
import { PROGRAM, type RewardContext, type RewardKind, rewardNamed } from "./registry.js";

export interface RewardSources {
  readonly settings: RunSettings;
  readonly config: RulerConfig & JudgeMachine;
  /** The judge that hone runs, where {@link judgesHere}. */
  readonly local?: LocalJudgePlan | undefined;
  readonly task: AnyTask;
  readonly taskOptions: PlainOptions;
  /** Stores verdicts and their cost. */
  readonly store: RunStore;
  readonly signal: AbortSignal;
  readonly log: (text: string) => void;
  /** In place of the one that the settings name: a program's own. */
  readonly kind?: RewardKind | undefined;
}

type Settings = Pick<RunSettings, "reward" | "accuracy">;

/** The purpose a judge is needed for; undefined where none is needed. */
function whyJudge({ reward, accuracy }: Settings): string | undefined {
  if (rewardNamed(reward).judged) return `--reward ${reward}`;
  return accuracy === "judge" ? "--accuracy judge" : undefined;
}

/**
 * Checks, before anything is loaded, that there is a judge where the settings need one.
 * @throws UsageError when there is none, or the task cannot give it a question
 */
export async function requireRewards(settings: RunSettings, task: AnyTask, kind?: RewardKind): Promise<void> {
  const { requireTask } = kind ?? rewardNamed(settings.reward);
  requireTask(task);
  if (settings.accuracy === "judge") (await import("./claims.js")).requireClaim(task, "--accuracy judge");
  const why = whyJudge(settings);
  if (why !== undefined) (await import("./judge-options.js")).requireJudge(settings, why);
}

/** Whether the settings need a judge, and hone runs it. */
export const judgesHere = (settings: RunSettings): boolean => whyJudge(settings) !== undefined && runsHere(settings);

/** Whether rewards can be computed again from the rollouts alone: without a judge, and without a program's function. */
export const isRecomputable = (settings: Settings): boolean =>
  whyJudge(settings) === undefined && settings.reward !== PROGRAM;

/** See AdvantageOptions: of the rewards that train. A control's coins have no noise. */
export const spreadFloorOf = (
  { control }: Pick<RunSettings, "control">,
  { spreadFloor }: Pick<RewardKind, "spreadFloor">,
): number => (control === "random-reward" ? 0 : spreadFloor);

export async function openRewards(sources: RewardSources): Promise<Rewards> {
  const { settings, config, log } = sources;
  const kind = sources.kind ?? rewardNamed(settings.reward);
  const why = whyJudge(settings);
  const local =
    sources.local && (await (await import("./local-judge.js")).openLocalJudge(sources.local, config, true, log));
  try {
    return await openWith(sources, kind, why, local);
  } catch (error) {
    await local?.close();
    throw error;
  }
}

async function openWith(
  { settings, config, task, taskOptions, store, signal, log }: RewardSources,
  kind: RewardKind,
  why: string | undefined,
  local: LocalJudge | undefined,
): Promise<Rewards> {
  const judge =
    why &&
    (await import("./judge.js")).openJudge(
      { ...config, ...settings },
      why,
      store.verdicts(),
      store.judgeSpending(),
      log,
      local,
    );
  const env = kind.needsEnv ? await task.open(taskOptions) : undefined;
  const onSpent = () => {
    if (judge) store.saveJudgeSpending(judge.usage());
  };
  const context: RewardContext = { task, env, settings, config, signal, log, judge: judge as Judge, onSpent };
  return {
    // Held-out answers are graded as without the control.
    rewardGroup:
      settings.control === "random-reward"
        ? (await import("./control.js")).randomReward(settings.seed)
        : await kind.open(context),
    spreadFloor: spreadFloorOf(settings, kind),
    ...(settings.accuracy === "judge" ? { grade: await kind.grade(context) } : {}),
    ...(judge ? { judgeLap: (await import("./judged.js")).judgeLaps(judge) } : {}),
    ...(local ? { restJudge: local.sleep, judgeBeside: local.beside } : {}),
    close: async () => {
      onSpent();
      await local?.close();
      if (kind.needsEnv) await task.close(env);
    },
  };
}
