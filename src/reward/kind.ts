/**
 * What a reward is to the rest of hone. Adding one is a file with a RewardKind, and its name in registry.ts: options, help,
 * checks, what makes another run, and what is told while it trains follow from here.
 */
import type { Judge } from "../judge/index.js";
import type { RunSettings } from "../run/index.js";
import type { AnyTask } from "../tasks/index.js";
import type { RulerConfig } from "./judge.js";
import type { GradingContext } from "./judged.js";
import type { GradeRollout, RewardGroup } from "./reward.js";

/** What a reward may use. */
export interface RewardContext {
  readonly task: AnyTask;
  /** The task's, opened on this thread, where `needsWorld` or held-out answers are judged; else undefined. */
  readonly world: unknown;
  readonly settings: RunSettings;
  readonly config: RulerConfig;
  readonly signal: AbortSignal;
  readonly say: (text: string) => void;
  /** May what is said have colours? */
  readonly colours: boolean;
}

export interface JudgedContext extends RewardContext {
  readonly judge: Judge;
  /** To be called after everything that was paid for. */
  readonly onSpent: () => void;
}

interface Common {
  /** `--reward NAME`. */
  readonly name: string;
  /** For help: what training pushes up with it. */
  readonly about: string;
  /** Rewards of a group that lie nearer together are noise; see AdvantageOptions. 0 for what can be checked. */
  readonly spreadFloor: number;
  /** Who says whether held-out answers are right, unless `--accuracy` does. */
  readonly accuracy: "task" | "judge";
  /** Is the task's world needed on the main thread? */
  readonly needsWorld: boolean;
  /** @throws UsageError when the task lacks what the reward takes */
  requireTask(task: AnyTask): void;
  /** Texts that rewards depend on and that are no settings, by name: others make it another run. */
  contents(settings: RunSettings): Readonly<Record<string, string>>;
}

export type RewardKind = Common &
  (
    | { readonly judged: false; open(context: RewardContext): RewardGroup }
    | { readonly judged: true; open(context: JudgedContext): RewardGroup }
  ) & {
    /** What held-out rollouts are worth where a judge says whether the answer is right. */
    grade(context: GradingContext): GradeRollout;
  };

/** What most rewards have in common: nothing asked of the task, held-out answers graded by the task. */
export const ordinary = {
  spreadFloor: 0,
  accuracy: "task",
  needsWorld: false,
  requireTask: () => undefined,
  contents: () => ({}),
} as const;
