/**
 * Rewards, advantages and the mean of a step, computed again by another way than the one that made them (credit.ts): each rollout has the
 * reward that was asked for it and that the reward stage gave to its place, and its advantage follows from the pairwise
 * differences of its group's rewards.
 */
import { comparable } from "../core/reward/comparable.js";
import type { GroupReward } from "../core/reward/reward.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { RunSettings } from "../core/run/settings.js";
import type { CreditedGroup } from "../core/train/credit.js";
import type { Moments, Wrong } from "../core/train/guard.js";

type AdvantageOptions = Moments["afterCredit"]["options"];

/**
 * Of an advantage, relative to the larger of itself and 1: rounding in f64 of sums over a group, more where rewards are large beside
 * their differences.
 */
const ROUNDING = 1e-9;

/**
 * What the differences of one rollout's reward from all others are divided by. The sample variance is the sum of all pairs'
 * squared differences divided by n (n - 1).
 */
function divisor(rewards: readonly number[], { estimator, stdFloor }: AdvantageOptions): number {
  const n = rewards.length;
  if (estimator === "rloo") return n - 1;
  if (estimator === "dr-grpo") return n;
  let squares = 0;
  rewards.forEach((one, i) => {
    for (const other of rewards.slice(i + 1)) squares += (one - other) ** 2;
  });
  return n * (Math.sqrt(squares / (n * (n - 1))) + stdFloor);
}

function wrongIn(
  group: readonly Trajectory[],
  reward: GroupReward,
  { members, rewarded, hasSignal }: CreditedGroup,
  options: AdvantageOptions,
): Wrong {
  if (members.length !== group.length || members.some(({ trajectory }, i) => trajectory.id !== group[i]?.id)) {
    return `the group of ${group[0]?.id} has other rollouts than were played`;
  }
  const moved = members.find(({ advantage, masked }) => advantage !== 0 && (masked || !hasSignal));
  if (moved) return `the rollout ${moved.trajectory.id} is left out, and has the advantage ${moved.advantage}`;
  if (reward.kind !== "rewarded") {
    return rewarded ? `the group of ${group[0]?.id} has rewards, and none was given` : undefined;
  }
  const { rewards, of = [] } = reward;
  const foreign = of.findIndex((id, i) => id !== group[i]?.id);
  if (foreign >= 0) return `the rollout ${group[foreign]?.id} was given the reward of ${of[foreign]}`;
  const other = members.findIndex((member, i) => member.reward !== rewards[i]);
  if (other >= 0) {
    return `the rollout ${group[other]?.id} was given the reward ${rewards[other]}, and has ${members[other]?.reward}`;
  }
  if (!hasSignal) return undefined;
  const by = divisor(rewards, options);
  const rounding = ROUNDING * (1 + Math.max(...rewards.map(Math.abs)) / (Math.max(...rewards) - Math.min(...rewards)));
  for (const [i, { trajectory, advantage, masked }] of members.entries()) {
    const own = rewards[i] as number;
    const wanted = rewards.reduce((sum, one) => sum + (own - one), 0) / by;
    if (!masked && !(Math.abs(advantage - wanted) <= rounding * Math.max(1, Math.abs(wanted)))) {
      return `the rollout ${trajectory.id} has the advantage ${advantage.toFixed(4)}, and its group's rewards give ${wanted.toFixed(4)}`;
    }
  }
  return undefined;
}

/**
 * @param groups as they were played
 * @param rewards one for each group, as the reward stage gave them
 * @param credited one for each group
 * @returns what is wrong, where rewards or advantages are others than follow from them
 */
export function checkCredits(
  groups: readonly (readonly Trajectory[])[],
  rewards: readonly GroupReward[],
  credited: readonly CreditedGroup[],
  options: AdvantageOptions,
): Wrong {
  for (const [i, group] of groups.entries()) {
    const wrong = wrongIn(comparable(group), rewards[i] as GroupReward, credited[i] as CreditedGroup, options);
    if (wrong === undefined) continue;
    return `rewards and advantages computed by a second path are others: ${wrong}; the step was not taken. The same command tries again`;
  }
  return undefined;
}

// By what they were computed, beside the options of the run: apart from the code that hands those on.

const LIMITS: readonly string[] = ["turn_limit", "token_limit", "context_limit"];

/** What a rollout earns, where its own task says it; undefined of other rewards. */
function ownReward({ reward }: Trajectory, { reward: name, control }: RunSettings): number | undefined {
  if (control !== "none") return undefined;
  return name === "task" ? reward.reward : name === "success" ? Number(reward.success) : undefined;
}

/**
 * @param program the rewards are a program's own
 * @returns what is wrong, where the run's options give other advantages, masks or rewards
 */
export function checkCreditedBy(
  credited: readonly CreditedGroup[],
  { estimator, stdFloor }: AdvantageOptions,
  run: RunSettings,
  program: boolean,
): Wrong {
  const refusal = (what: string) => `${what}; the step was not taken. The same command tries again`;
  if (estimator !== run.advantages || stdFloor !== run.stdFloor) {
    const by = (name: string, floor: number) => `--advantages ${name} with --std-floor ${floor}`;
    return refusal(
      `advantages were computed by ${by(estimator, stdFloor)}, and the run has ${by(run.advantages, run.stdFloor)}`,
    );
  }
  const trained = credited.flatMap(({ members, rewarded }) => (rewarded ? members : []));
  for (const { trajectory, reward, masked } of trained) {
    const { id, end } = trajectory;
    if (masked !== (run.maskTruncated && LIMITS.includes(end))) {
      return refusal(
        `the rollout ${id} ended by ${end} and is ${masked ? "" : "not "}masked, against --mask-truncated`,
      );
    }
    const own = program ? undefined : ownReward(trajectory, run);
    if (own !== undefined && own !== reward)
      return refusal(`the rollout ${id} earned ${own}, and is trained with ${reward}`);
  }
  return undefined;
}

// What a step's loss is a mean over, counted again by another way than credit.ts: group by group.

const tokensOf = ({ tokens, branches = [] }: Trajectory): number => {
  let count = 0;
  for (const record of [tokens, ...branches.map((branch) => branch.tokens)]) {
    for (const flag of record?.sampled ?? []) if (flag === 1) count++;
  }
  return count;
};

/**
 * @param further number of groups that were played in place of some with advantages of 0, the first of which then count as not played
 * @param mean as the learner is told
 * @returns what is wrong, where it is another
 */
export function checkMean(
  groups: readonly CreditedGroup[],
  further: number,
  mean: { readonly rollouts: number; readonly sampledTokens: number },
): Wrong {
  let replaced = Math.max(0, further);
  let rollouts = 0;
  let sampledTokens = 0;
  for (const { members, hasSignal, tooFew, noVerdict } of groups) {
    if (!hasSignal) {
      if (tooFew || noVerdict !== null) continue;
      if (replaced > 0) {
        replaced--;
        continue;
      }
    }
    rollouts += members.length;
    for (const { trajectory, masked } of members) if (!masked) sampledTokens += tokensOf(trajectory);
  }
  if (rollouts === mean.rollouts && sampledTokens === mean.sampledTokens) return undefined;
  return `the loss would be a mean over ${mean.rollouts} rollouts and ${mean.sampledTokens} tokens, and the step has ${rollouts} and ${sampledTokens}; the step was not taken. The same command tries again`;
}
