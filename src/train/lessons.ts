/** From finished groups to what the update learns of them: rewards, then advantages, then the batch. */
import { type AdvantageOptions, type BatchGroup, groupAdvantages } from "../learn/index.js";
import { comparable, type GroupReward } from "../reward/index.js";
import type { Trajectory } from "../rollout/index.js";
import type { Lesson } from "../run/index.js";
import type { RolloutEnd } from "../tasks/index.js";
import { HoneError } from "../util/index.js";

export interface TaughtMember {
  readonly trajectory: Trajectory;
  readonly reward: number;
  /** 0 where nothing is learnt from it. */
  readonly advantage: number;
  /** A limit ended it, and it is left out of the batch for that. It has its part in the group's mean. */
  readonly masked: boolean;
  /** A judge's. */
  readonly explanation?: string;
  /** All parts of the reward that trained. */
  readonly parts?: Readonly<Record<string, number>>;
}

/** A group with what training makes of it. */
export interface Taught {
  /** Those that are compared with each other. */
  readonly members: readonly TaughtMember[];
  /** Ended by no fault of the model: they have no part in the group's mean nor in the batch. */
  readonly brokenOff: readonly Trajectory[];
  /** So many are that fewer than two members are left. */
  readonly tooFew: boolean;
  /** False when there is no reward: nothing of it trains. */
  readonly rewarded: boolean;
  /** Why no reward could be had; null where one could, or none was needed: all rollouts are alike, or too few. */
  readonly lost: string | null;
  /** How far a judge's votes agree; null where there are none to compare. */
  readonly agreement: number | null;
  /** False when it teaches nothing: no reward, no spread, or all that differs from the mean is masked. */
  readonly trainable: boolean;
  /** Its rewards differ, but all that could be learnt is masked. */
  readonly allMasked: boolean;
}

export interface TeachOptions extends AdvantageOptions {
  /** Leave out rollouts that a limit ended (DAPO's overlong filtering; TRL's mask_truncated_completions). */
  readonly maskTruncated?: boolean;
}

/** Ends that are a limit's doing: whatever the rollout would have come to, it was not let. */
const TRUNCATED: ReadonlySet<RolloutEnd> = new Set<RolloutEnd>(["turn_limit", "token_limit", "context_limit"]);

/** @param rewards one for each group */
export function teach(
  groups: readonly (readonly Trajectory[])[],
  rewards: readonly GroupReward[],
  options: TeachOptions,
): Taught[] {
  return groups.map((group, i) => teachGroup(group, rewards[i] as GroupReward, options));
}

function teachGroup(all: readonly Trajectory[], reward: GroupReward, options: TeachOptions): Taught {
  const group = comparable(all);
  const brokenOff = all.filter((trajectory) => !group.includes(trajectory));
  const tooFew = reward.kind === "broken_off";
  if (reward.kind !== "rewarded") {
    const members = group.map((trajectory) => ({
      trajectory,
      reward: trajectory.reward.reward,
      advantage: 0,
      masked: false,
    }));
    const lost = reward.kind === "lost" ? reward.reason : null;
    return { members, brokenOff, tooFew, rewarded: false, lost, agreement: null, trainable: false, allMasked: false };
  }
  const { rewards, explanations, parts, agreement = null } = reward;
  const { advantages, trainable: spread } = groupAdvantages(rewards, options);
  const members = group.map((trajectory, i) => {
    const explanation = explanations?.[i];
    const masked = options.maskTruncated === true && TRUNCATED.has(trajectory.end);
    const advantage = masked ? 0 : (advantages[i] as number);
    const taught = {
      ...{ trajectory, reward: rewards[i] as number, advantage, masked },
      ...(parts === undefined ? {} : { parts: { ...trajectory.reward.parts, ...parts[i] } }),
    };
    return explanation === undefined ? taught : { ...taught, explanation };
  });
  const trainable = spread && members.some(({ advantage }) => advantage !== 0);
  const allMasked = spread && !trainable;
  return { members, brokenOff, tooFew, rewarded: true, lost: null, agreement, trainable, allMasked };
}

/** What is noted beside the rollouts when the step is committed. */
export function lessonsOf(groups: readonly Taught[]): Lesson[] {
  return groups
    .filter(({ rewarded }) => rewarded)
    .flatMap(({ members }) =>
      members.map(({ trajectory, reward, advantage, explanation }) => ({
        scenario: trajectory.scenario.id,
        member: trajectory.index,
        reward,
        advantage,
        explanation: explanation ?? null,
      })),
    );
}

/** Rewarded, and nothing to learn from it: the rewards are equal, or those that differ are masked. */
export function isIdle({ trainable, lost, tooFew }: Taught): boolean {
  return !trainable && lost === null && !tooFew;
}

/**
 * Rollouts that a step's mean is over: of all groups whose rewards are known. In an idle one every gradient is 0, so the batch
 * does not hold it, but a mean over rollouts (dr-grpo, gspo) counts it, as the papers and TRL do; not where another group
 * has replaced it.
 * @param further how many of the groups were played in the place of idle ones
 */
export function rolloutsLearntFrom(groups: readonly Taught[], further = 0): number {
  const size = (some: readonly Taught[]) => some.reduce((sum, { members }) => sum + members.length, 0);
  return size(groups.filter(({ trainable }) => trainable)) + size(groups.filter(isIdle).slice(further));
}

/** @throws HoneError when a player without tokens played */
export function batchOf(groups: readonly Taught[]): BatchGroup[] {
  return groups
    .filter(({ trainable }) => trainable)
    .map(({ members }) =>
      members
        .filter(({ masked }) => !masked)
        .map(({ trajectory, advantage }) => {
          if (!trajectory.tokens) throw new HoneError(`the rollout ${trajectory.id} has no tokens to train on`);
          return { tokens: trajectory.tokens, advantage };
        }),
    );
}
