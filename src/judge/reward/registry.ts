/**
 * The rewards that `--reward` can name. To add one, write an entry here: options, help, checks, the identity of a run, and the
 * output of training follow from it. What it needs of judges is loaded when it is opened.
 */

import { hash } from "node:crypto";
import type { GradeRollout, RewardGroup } from "../../core/reward/reward.js";
import type { RunSettings } from "../../core/run/settings.js";
import type { AnyTask } from "../../core/task/task.js";
import { UsageError } from "../../core/util/errors.js";
import { nearest } from "../../core/util/nearest.js";
import { requireShaped } from "./claims.js";
import type { ComposedReward } from "./compose.js";
import type { RulerConfig } from "./judge-options.js";
import type { GradingContext } from "./judged.js";
import { rubricOf } from "./rubric.js";

/** What a reward's functions are given: the judge where the reward is `judged`, the task's environment where it is needed. */
export interface RewardContext extends GradingContext {
  readonly settings: RunSettings;
  readonly config: RulerConfig;
  readonly log: (text: string) => void;
}

/** A reward, found by its name, that of `--reward NAME`. */
export interface RewardKind {
  readonly name: string;
  /** For help: the quantity that training increases with it. */
  readonly about: string;
  /** Whether it needs a judge. */
  readonly judged: boolean;
  /** Rewards of a group that differ by less are noise; see AdvantageOptions. 0 for checkable rewards. */
  readonly spreadFloor: number;
  /** Who decides whether held-out answers are right, unless `--accuracy` is given. */
  readonly accuracy: "task" | "judge";
  /** Whether it rests on the task's own comparison of answers, which knows their wording alone: free text is then warned of. */
  readonly comparesByWording: boolean;
  /** Whether the task's environment is needed on the main thread. */
  readonly needsEnv: boolean;
  /** @throws UsageError when the task lacks something that the reward needs */
  requireTask(task: AnyTask): void;
  /** Texts, besides settings, that rewards depend on, by name: other texts make it another run. */
  contents(settings: RunSettings): Readonly<Record<string, string>>;
  open(context: RewardContext): RewardGroup | Promise<RewardGroup>;
  /** Reward of held-out rollouts where a judge decides whether the answer is right. */
  grade(context: GradingContext): Promise<GradeRollout>;
}

type Entry = Omit<RewardKind, "name">;

/** What most rewards without a judge have: no requirement on the task, answers compared as the task does. */
const checkable: Omit<Entry, "about" | "open"> = {
  judged: false,
  spreadFloor: 0,
  accuracy: "task",
  comparesByWording: true,
  needsEnv: false,
  requireTask: () => undefined,
  contents: () => ({}),
  grade: async (context) => (await import("./judged.js")).gradeSuccess(context),
};
const judged = { ...checkable, judged: true, comparesByWording: false };

/** The weight of the judge's part in a task's reward; undefined without one. */
const rulerWeightOf = (reward: unknown): number | undefined => (reward as Partial<ComposedReward>).rulerWeight;

/** The task's own reward. */
export const taskReward: RewardGroup = async (group) => ({
  kind: "rewarded",
  rewards: group.map(({ reward }) => reward.reward),
});

const task: Entry = {
  ...checkable,
  about: "the task's own reward",
  requireTask: ({ name, reward }) => {
    if (rulerWeightOf(reward) === undefined) return;
    throw new UsageError(
      `--reward task: the reward of the task ${name} has a part for a judge; train with --reward composed, or take \`ruler\` out of it`,
    );
  },
  open: () => taskReward,
};

/** What a graded reward adds to it shows in the comparison. */
const success: Entry = {
  ...checkable,
  about: "1 where the task says that the rollout succeeded, else 0: no partial credit",
  open: () => async (group) => ({ kind: "rewarded", rewards: group.map(({ reward }) => (reward.success ? 1 : 0)) }),
};

const shaped: Entry = {
  ...judged,
  about: "the task's graded reward, for which a judge says whether the answer is right (ART-E's, for email)",
  accuracy: "judge",
  needsEnv: true,
  requireTask: requireShaped,
  open: async (context) => (await import("./judged.js")).shapedReward(context),
  grade: async (context) => (await import("./judged.js")).gradeShaped(context),
};

const ruler: Entry = {
  ...judged,
  about: "a judge's scores of the group's rollouts (RULER), from 0 to 1",
  // Below it scores differ by chance.
  spreadFloor: 0.05,
  contents: ({ rulerRubric }) => ({ rubric: hash("sha256", rubricOf(rulerRubric)) }),
  open: async (context) => {
    const [{ rulerSettings }, { rulerReward }, { watchOrder }] = await Promise.all([
      import("./judge.js"),
      import("./judged.js"),
      import("./noise.js"),
    ]);
    const { settings, config, log } = context;
    const rubric = rubricOf(settings.rulerRubric);
    const how = rulerSettings({ ...config, ...settings }, rubric, context.task, settings.seed);
    return rulerReward(context, how, watchOrder(log));
  },
};

const composed: Entry = {
  ...judged,
  about: "the task's composed reward, with a judge's scores (RULER) as one of its parts",
  contents: ruler.contents,
  requireTask: ({ name, reward }) => {
    if (rulerWeightOf(reward) !== undefined) return;
    throw new UsageError(
      `--reward composed: the reward of the task ${name} has no part for a judge; give composeReward a weight for \`ruler\``,
    );
  },
  open: async (context) => {
    const { RULER_PART } = await import("./compose.js");
    const weight = rulerWeightOf(context.task.reward) as number;
    const judge = await ruler.open(context);
    return async (group, step) => {
      const scored = await judge(group, step);
      if (scored.kind !== "rewarded") return scored;
      return {
        ...scored,
        rewards: scored.rewards.map((score, i) => (group[i]?.reward.reward as number) + weight * score),
        parts: scored.rewards.map((score) => ({ [RULER_PART]: score })),
      };
    };
  },
};

/** The name under which a run records the function of a program that calls `trainRun`: no option offers it. */
export const PROGRAM = "program";

function missing(): never {
  throw new UsageError(
    "the reward is a function of a program that calls trainRun (docs/library.md); train by that program, or start a run with --run NAME and another --reward",
  );
}

/** As a run records it: without the function. */
const program: Entry = {
  ...checkable,
  comparesByWording: false,
  about: "a function of a program of yours that calls trainRun (docs/library.md)",
  requireTask: missing,
  open: missing,
};

/** With its function. */
export const programReward = (rewardGroup: RewardGroup, spreadFloor: number): RewardKind => ({
  ...program,
  name: PROGRAM,
  spreadFloor,
  requireTask: () => undefined,
  open: () => rewardGroup,
});

const offered: Readonly<Record<string, Entry>> = { task, success, shaped, ruler, composed };
const rewards: Readonly<Record<string, Entry>> = { ...offered, [PROGRAM]: program };

export const rewardNames: readonly string[] = Object.keys(offered);

/**
 * Also the one that no option offers: a run may have recorded it.
 *
 * @throws UsageError when there is no such reward
 */
export function rewardNamed(name: string): RewardKind {
  const found = Object.hasOwn(rewards, name) ? rewards[name] : undefined;
  if (found) return { ...found, name };
  const close = nearest(name, rewardNames);
  throw new UsageError(
    `--reward ${name}: there is no such reward; ${close ? `did you mean ${close}?` : `give one of ${rewardNames.join(", ")}`}`,
  );
}

/** For help. */
export function rewardsText(): string {
  const width = Math.max(...rewardNames.map((name) => name.length)) + 2;
  return [
    "Rewards (--reward):",
    ...Object.entries(offered).map(([name, { about }]) => `  ${name.padEnd(width)}${about}`),
  ].join("\n");
}

/** Whether another reward than the task's own trains. */
export function pushesOther(settings: { readonly reward?: unknown; readonly control?: unknown }): boolean {
  const { reward = "task", control = "none" } = settings;
  return reward !== "task" || control !== "none";
}
