/** What a run's settings say about rewards, bound to a judge where they need one. */
import { rulingText } from "../report/index.js";
import type { RunSettings, RunStore } from "../run/index.js";
import type { AnyTask, PlainOptions } from "../tasks/index.js";
import { randomReward } from "./control.js";
import { openJudge, type RulerConfig, requireJudge, rubricOf, rulerSettings } from "./judge.js";
import {
  gradeShaped,
  gradeSuccess,
  judgeLaps,
  requireClaim,
  requireShaped,
  rulerReward,
  shapedReward,
} from "./judged.js";
import type { Rewards } from "./reward.js";
import { taskReward } from "./task.js";

export interface RewardSources {
  readonly settings: RunSettings;
  readonly config: RulerConfig;
  readonly task: AnyTask;
  readonly taskOptions: PlainOptions;
  /** Keeps verdicts, and what they cost. */
  readonly store: RunStore;
  readonly signal: AbortSignal;
  readonly say: (text: string) => void;
  /** May what is said have colours? */
  readonly colours: boolean;
}

/** Spread below which a judge's scores of a group are noise. */
const SPREAD_FLOOR = 0.05;

/**
 * Is there a judge where the settings need one? Found out before anything is loaded.
 * @throws UsageError when there is none, or the task cannot say what to ask it
 */
export function requireRewards(settings: RunSettings, task: AnyTask): void {
  const { reward, accuracy } = settings;
  if (reward === "shaped") requireShaped(task);
  if (accuracy === "judge") requireClaim(task, "--accuracy judge");
  if (reward !== "task") requireJudge(settings, `--reward ${reward}`);
  else if (accuracy === "judge") requireJudge(settings, "--accuracy judge");
}

export async function openRewards(sources: RewardSources): Promise<Rewards> {
  const { settings, config, task, store, signal, say } = sources;
  const { reward, accuracy, control, seed } = settings;
  const own = control === "random-reward" ? randomReward(seed) : taskReward;
  if (reward === "task" && accuracy === "task")
    return { rewardGroup: own, spreadFloor: 0, close: async () => undefined };

  const why = reward === "task" ? "--accuracy judge" : `--reward ${reward}`;
  const chosen = { ...config, ...settings };
  const judge = openJudge(chosen, why, store.verdicts(), store.judgeSpending(), say);
  const onSpent = () => store.saveJudgeSpending(judge.client.usage());
  const world = accuracy === "judge" || reward === "shaped" ? await task.open(sources.taskOptions) : undefined;
  const context = { judge, signal, onSpent, task, world };
  const judged = () =>
    reward === "shaped"
      ? shapedReward(context)
      : rulerReward(
          context,
          rulerSettings(chosen, rubricOf(settings.rulerRubric), task, seed),
          (group, ruling) => config.debugJudge && say(rulingText(group, ruling, sources.colours)),
        );
  const grade = accuracy === "task" ? undefined : reward === "shaped" ? gradeShaped(context) : gradeSuccess(context);
  return {
    rewardGroup: reward === "task" || control === "random-reward" ? own : judged(),
    spreadFloor: reward === "ruler" && control === "none" ? SPREAD_FLOOR : 0,
    ...(grade ? { grade } : {}),
    judgeLap: judgeLaps(judge),
    close: async () => {
      onSpent();
      if (world !== undefined) await task.close(world);
    },
  };
}
