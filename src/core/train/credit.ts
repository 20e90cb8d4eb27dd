/** From finished groups to the input of the update: rewards, then advantages, then the batch. */
import { addDraws } from "../engine/evaluated.js";
import type { DrawStatistics } from "../engine/sequence.js";
import { type AdvantageOptions, groupAdvantages } from "../learn/advantages.js";
import type { BatchGroup, BatchTrajectory } from "../learn/batch.js";
import type { StepSettings } from "../learn/types.js";
import { comparable } from "../reward/comparable.js";
import type { GroupReward } from "../reward/reward.js";
import { recordsOf, type Trajectory } from "../rollout/trajectory.js";
import type { RolloutCredit } from "../run/records.js";
import type { RolloutEnd } from "../task/task.js";
import { HoneError } from "../util/errors.js";

export interface CreditedRollout {
  readonly trajectory: Trajectory;
  readonly reward: number;
  /** 0 where the rollout is not trained on. */
  readonly advantage: number;
  /** A limit ended it, and it is therefore left out of the batch. It counts in the group's mean. */
  readonly masked: boolean;
  /** A judge's explanation. */
  readonly explanation?: string;
  /** All parts of the training reward. */
  readonly parts?: Readonly<Record<string, number>>;
}

/** A group with its rewards and advantages. */
export interface CreditedGroup {
  /** The rollouts that are compared with each other. */
  readonly members: readonly CreditedRollout[];
  /** Ended by no fault of the model: they count neither in the group's mean nor in the batch. */
  readonly brokenOff: readonly Trajectory[];
  /** Fewer than two members are left because of those. */
  readonly tooFew: boolean;
  /** False when there is no reward: rewards push nothing of the group. */
  readonly rewarded: boolean;
  /** Why there is no reward; null where there is one, or none was needed: all rollouts are identical, or too few. */
  readonly noVerdict: string | null;
  /** Agreement of a judge's votes; null with fewer than two votes. */
  readonly agreement: number | null;
  /** False where rewards push nothing: none, no spread, or all that differ from the mean are masked. `--kl` still trains on it. */
  readonly hasSignal: boolean;
  /** Its rewards differ, but all rollouts with an advantage are masked. */
  readonly allMasked: boolean;
}

export interface CreditOptions extends AdvantageOptions {
  /** Leaves out rollouts that a limit ended (DAPO's overlong filtering; TRL's mask_truncated_completions). */
  readonly maskTruncated?: boolean;
}

/** All that were played in these groups. */
export const rolloutsOf = (groups: readonly CreditedGroup[]): Trajectory[] =>
  groups.flatMap(({ members, brokenOff }) => [...members.map(({ trajectory }) => trajectory), ...brokenOff]);

/** Of their draws; null where the engine has measured none. */
export function drawsOf(groups: readonly CreditedGroup[]): DrawStatistics | null {
  let sum: DrawStatistics | undefined;
  for (const { evaluated } of rolloutsOf(groups).flatMap(recordsOf)) {
    const draws = evaluated?.draws;
    if (draws && draws.tokens > 0) sum = addDraws(draws, sum);
  }
  return sum ?? null;
}

/** Ends by a limit: the rollout was cut off before its own end. */
const TRUNCATED: ReadonlySet<RolloutEnd> = new Set<RolloutEnd>(["turn_limit", "token_limit", "context_limit"]);

/** @param rewards one for each group */
export function creditGroups(
  groups: readonly (readonly Trajectory[])[],
  rewards: readonly GroupReward[],
  options: CreditOptions,
): CreditedGroup[] {
  return groups.map((group, i) => creditGroup(group, rewards[i] as GroupReward, options));
}

function creditGroup(all: readonly Trajectory[], reward: GroupReward, options: CreditOptions): CreditedGroup {
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
    const noVerdict = reward.kind === "no_verdict" ? reward.reason : null;
    return {
      members,
      brokenOff,
      tooFew,
      rewarded: false,
      noVerdict,
      agreement: null,
      hasSignal: false,
      allMasked: false,
    };
  }
  const { rewards, explanations, parts, agreement = null } = reward;
  const { advantages, hasSpread } = groupAdvantages(rewards, options);
  const members = group.map((trajectory, i) => {
    const explanation = explanations?.[i];
    const masked = options.maskTruncated === true && TRUNCATED.has(trajectory.end);
    const advantage = masked ? 0 : (advantages[i] as number);
    const credited = {
      trajectory,
      reward: rewards[i] as number,
      advantage,
      masked,
      ...(parts === undefined ? {} : { parts: { ...trajectory.reward.parts, ...parts[i] } }),
    };
    return explanation === undefined ? credited : { ...credited, explanation };
  });
  const hasSignal = hasSpread && members.some(({ advantage }) => advantage !== 0);
  const allMasked = hasSpread && !hasSignal;
  return { members, brokenOff, tooFew, rewarded: true, noVerdict: null, agreement, hasSignal, allMasked };
}

/** The rows stored beside the rollouts when the step is committed. Rollouts that are all identical have no reward of the training's. */
export function creditsOf(groups: readonly CreditedGroup[]): RolloutCredit[] {
  return groups
    .filter((group) => group.rewarded || hasZeroAdvantages(group))
    .flatMap(({ members, rewarded }) =>
      members.map(({ trajectory, reward, advantage, explanation }) => ({
        scenario: trajectory.scenario.id,
        member: trajectory.index,
        reward: rewarded ? reward : null,
        advantage,
        explanation: explanation ?? null,
      })),
    );
}

/**
 * Its advantages are 0, though nothing failed: the rewards are equal, those that differ are masked, or all rollouts are identical, so
 * that nobody was asked for rewards.
 */
export function hasZeroAdvantages({ hasSignal, noVerdict, tooFew }: CreditedGroup): boolean {
  return !hasSignal && noVerdict === null && !tooFew;
}

/**
 * The groups that a step's mean is over: those with known rewards. Where advantages are 0 the gradient of the rewards is too, but the
 * mean counts it, as the papers and TRL do, unless another group has replaced it.
 * @param further number of groups that were played in place of some with advantages of 0
 */
function countedGroups(groups: readonly CreditedGroup[], further: number): CreditedGroup[] {
  const replaced = new Set(groups.filter(hasZeroAdvantages).slice(0, Math.max(0, further)));
  return groups.filter((group) => (group.hasSignal || hasZeroAdvantages(group)) && !replaced.has(group));
}

const sampledIn = (trajectory: Trajectory): number =>
  recordsOf(trajectory).reduce((sum, { sampled }) => sum + sampled.reduce((one, flag) => one + flag, 0), 0);

/** What the losses of a step are a mean over; `further` as in {@link countedGroups}. */
export function meanOver(
  groups: readonly CreditedGroup[],
  further = 0,
): Required<Pick<StepSettings, "rollouts" | "sampledTokens">> {
  const members = countedGroups(groups, further).flatMap((group) => group.members);
  const sampled = members.filter(({ masked }) => !masked).map(({ trajectory }) => sampledIn(trajectory));
  return { rollouts: members.length, sampledTokens: sampled.reduce((sum, n) => sum + n, 0) };
}

/**
 * The groups whose rollouts have a gradient: those with a signal, or with a KL term all that the mean is over, since its pull
 * is on every rollout. What is masked, or has no sampled token, has none.
 * @param further as in {@link countedGroups}
 * @throws HoneError for rollouts of a player without tokens
 */
export function batchOf(groups: readonly CreditedGroup[], { kl, further = 0 }: { kl: number; further?: number }) {
  const chosen = kl > 0 ? countedGroups(groups, further) : groups.filter(({ hasSignal }) => hasSignal);
  return chosen.flatMap(({ members }): BatchGroup[] => {
    const trained = members.filter(({ masked }) => !masked);
    const pulls = trained.some((one) => (kl > 0 || one.advantage !== 0) && sampledIn(one.trajectory) > 0);
    const batch = trained.map(batched);
    return pulls ? [batch] : [];
  });
}

function batched({ trajectory, advantage }: CreditedRollout): BatchTrajectory {
  if (!trajectory.tokens) throw new HoneError(`the rollout ${trajectory.id} has no tokens to train on`);
  const branches = trajectory.branches?.map(({ tokens }) => tokens);
  // An agent's sequences draw with several.
  const seed = trajectory.agent || branches ? undefined : trajectory.seed;
  return { tokens: trajectory.tokens, branches, advantage, seed };
}
