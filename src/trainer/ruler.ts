/** RULER as a reward: a judge behind an OpenAI-compatible API compares the rollouts of a group. */
import { join } from "node:path";
import {
  type Config,
  givenByProgram,
  type LibraryOption,
  libraryOptions,
  withDefaults,
} from "../core/config/config.js";
import type { GroupReward } from "../core/reward/reward.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { JudgeUsage } from "../core/run/verdicts.js";
import { UsageError } from "../core/util/errors.js";
import type { Given, Listener } from "./given.js";
import type { OpenTask } from "./task.js";

export type RulerOptions = Given<LibraryOption<"ruler">> & Listener & { readonly signal?: AbortSignal };

export interface Ruler {
  /** Scores of a group's rollouts, from 0 to 1, or the reason why there are none. */
  score(group: readonly Trajectory[]): Promise<GroupReward>;
  /** Requests and tokens of the judge so far. */
  usage(): JudgeUsage;
  close(): void;
}

/**
 * Opens the judge `judgeModel` at `judgeUrl`. Verdicts are cached in the home folder, so none is paid for twice.
 *
 * @throws UsageError when an option is missing or wrong
 */
export async function ruler(task: OpenTask, options: RulerOptions): Promise<Ruler> {
  if (!task?.options || !options) throw new UsageError("ruler() takes a task of openTask(), and a judge's options");
  const { log = () => undefined, signal = new AbortController().signal, ...values } = options;
  const config: Pick<Config, LibraryOption<"ruler">> = withDefaults(
    libraryOptions("ruler"),
    await givenByProgram(values, libraryOptions("ruler")),
  );
  const [
    { rewardComparable },
    { openJudge, rulerSettings },
    { VERDICTS_FILE },
    { rubricOf },
    { rulerReward },
    { openVerdictFile },
  ] = await Promise.all([
    import("../core/reward/comparable.js"),
    import("../judge/reward/judge.js"),
    import("../judge/reward/judge-options.js"),
    import("../judge/reward/rubric.js"),
    import("../judge/reward/judged.js"),
    import("../core/run/verdicts.js"),
  ]);
  const rubric = rubricOf(config.rulerRubric);
  const { cache, close } = openVerdictFile(join(task.options.home, VERDICTS_FILE));
  try {
    const judge = openJudge(config, "ruler", config.judgeCache ? cache : undefined, undefined, log);
    const settings = rulerSettings(config, rubric, task.task, task.options.seed);
    const context = { judge, signal, onSpent: () => undefined };
    const reward = rewardComparable(rulerReward(context, settings, () => undefined));
    return { score: (group) => reward(group, 0), usage: () => judge.usage(), close };
  } catch (error) {
    close();
    throw error;
  }
}
