/**
 * The interface of a reward. To add one, write a file with a RewardCode and its entry in registry.ts: options, help, checks,
 * the identity of a run, and the output of training follow from there. What it needs of judges is loaded when it is opened.
 */

import type { GradeRollout, RewardGroup } from "../../core/reward/reward.js";
import type { RunSettings } from "../../core/run/settings.js";
import type { AnyTask } from "../../core/task/task.js";
import type { RulerConfig } from "./judge-options.js";
import type { GradingContext } from "./judged.js";

/** What a reward's functions are given: the judge where the reward is `judged`, the task's environment where it is needed. */
export interface RewardContext extends GradingContext {
  readonly settings: RunSettings;
  readonly config: RulerConfig;
  readonly log: (text: string) => void;
}

/** What is known of a reward before it is chosen: registry.ts has it. */
export interface RewardFacts {
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
}

/** What a reward does: a file of its own has it. */
export interface RewardCode {
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

/** Found by its name, that of `--reward NAME`. */
export type RewardKind = { readonly name: string } & RewardFacts & RewardCode;

/** Of most rewards without a judge. */
export const checkable = { judged: false, accuracy: "task", spreadFloor: 0, comparesByWording: true } as const;

/** The name under which a run records the function of a program that calls `trainRun`: no option offers it. */
export const PROGRAM = "program";

export const programFacts: RewardFacts = {
  ...checkable,
  comparesByWording: false,
  about: "a function of a program of yours that calls trainRun (docs/library.md)",
};

/** What most rewards do: no requirement on the task, answers compared as the task does. */
export const ordinary = {
  needsEnv: false,
  requireTask: () => undefined,
  contents: () => ({}),
  grade: async (context: GradingContext) => (await import("./judged.js")).gradeSuccess(context),
} as const;
