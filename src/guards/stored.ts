/**
 * What the run's store has of a committed step, read again beside what the step was made of: replay, the page and a repetition of
 * the step take it from there. What it measured is computed again from the rollouts that are stored, and beside what the learner said.
 */
import type { StepMetrics } from "../core/learn/types.js";
import { recordsOf, type Trajectory } from "../core/rollout/trajectory.js";
import type { TokenRecord } from "../core/rollout/transcript.js";
import type { StepMetricsRow, ValidationRow } from "../core/run/records.js";
import { bestOf } from "../core/run/run.js";
import type { CreditedGroup } from "../core/train/credit.js";
import { demanding, type Guard, type Wrong } from "../core/train/guard.js";

/** A rollout as the store has it. */
export interface StoredRollout {
  readonly scenario: string;
  readonly member: number;
  readonly trainingReward: number | null;
  readonly advantage: number | null;
  readonly trajectory: Trajectory;
}

/** Another reader of the store than the one that writes it. */
export interface StoreReader {
  rollouts(step: number): Iterable<StoredRollout>;
  /** null where the step has none. */
  metrics(step: number): StepMetricsRow | null;
  validations(): readonly ValidationRow[];
}

const same = (one: readonly number[], other: readonly number[], as: (value: number) => number) =>
  one.length === other.length && one.every((value, i) => as(value) === other[i]);

/** The store has log-probabilities in f32. */
const isSame = (made: TokenRecord, found: TokenRecord) =>
  same(made.ids, found.ids, Number) &&
  same(made.sampled, found.sampled, Number) &&
  same(made.logprobs, found.logprobs, Math.fround);

function differenceOf(made: Trajectory, found: StoredRollout | undefined): Wrong {
  if (found === undefined) return "is not there";
  const { trajectory } = found;
  if (trajectory.id !== made.id) return `is ${trajectory.id} there`;
  if (trajectory.reward.reward !== made.reward.reward) {
    return `has the reward ${trajectory.reward.reward} there, and earned ${made.reward.reward}`;
  }
  const [ours, theirs] = [recordsOf(made), recordsOf(trajectory)];
  const whole = ours.length === theirs.length && ours.every((record, i) => isSame(record, theirs[i] as TokenRecord));
  return whole ? undefined : "has other tokens, masks or log-probabilities there";
}

interface Made {
  readonly trajectory: Trajectory;
  /** null where the group has none of the training's. */
  readonly reward: number | null;
  readonly advantage: number;
}

const madeOf = ({ members, brokenOff, rewarded }: CreditedGroup): readonly Made[] => [
  ...members.map((member) => ({ ...member, reward: rewarded ? member.reward : null })),
  ...brokenOff.map((trajectory) => ({ trajectory, reward: null, advantage: 0 })),
];

function creditDifference({ reward, advantage }: Made, row: StoredRollout | undefined): Wrong {
  if (row?.trainingReward !== reward) return `has the training reward ${row?.trainingReward} there, and got ${reward}`;
  // Of a group without a verdict nothing is noted.
  if ((row.advantage ?? 0) === advantage) return undefined;
  return `has the advantage ${row.advantage} there, and was trained with ${advantage}`;
}

const placeOf = (scenario: string, member: number) => `${scenario}/${member}`;

const otherwise = (step: number, what: string) => `the store has step ${step} otherwise than it was made: ${what}`;

/** @returns what is wrong, where the store has a rollout, reward or advantage of the step otherwise */
export function checkStored(step: number, groups: readonly CreditedGroup[], rows: Iterable<StoredRollout>): Wrong {
  const stored = new Map([...rows].map((row) => [placeOf(row.scenario, row.member), row]));
  for (const made of groups.flatMap(madeOf)) {
    const { id, scenario, index } = made.trajectory;
    const row = stored.get(placeOf(scenario.id, index));
    const difference = differenceOf(made.trajectory, row) ?? creditDifference(made, row);
    if (difference !== undefined) return otherwise(step, `the rollout ${id} ${difference}`);
  }
  return undefined;
}

/** Of a mean, relative to it: sums in another order; log-probabilities are stored in f32. */
const ROUNDING = 1e-6;

const isNear = (found: unknown, wanted: number | null) =>
  found === wanted ||
  (typeof found === "number" && wanted !== null && Math.abs(found - wanted) <= ROUNDING * (1 + Math.abs(wanted)));

/** What the rollouts of a step give, each number by the name that it has among the metrics. */
function measured(rows: readonly StoredRollout[]): Partial<Record<keyof StepMetricsRow, number | null>> {
  const sums = { reward: 0, success: 0, turns: 0, completion_tokens: 0, training: 0, n: 0, surprise: 0, sampled: 0 };
  const trained = new Set<string>();
  for (const { scenario, trainingReward, advantage, trajectory } of rows) {
    sums.reward += trajectory.reward.reward;
    sums.success += Number(trajectory.reward.success);
    sums.turns += trajectory.turns;
    sums.completion_tokens += trajectory.completionTokens;
    if (trainingReward !== null) {
      sums.training += trainingReward;
      sums.n++;
    }
    if (advantage) trained.add(scenario);
    for (const { sampled, logprobs } of recordsOf(trajectory)) {
      for (let i = 0; i < sampled.length; i++) {
        if (sampled[i] !== 1) continue;
        sums.surprise -= logprobs[i] as number;
        sums.sampled++;
      }
    }
  }
  const over = (sum: number, n: number) => (n === 0 ? null : sum / n);
  const all = Math.max(1, rows.length);
  return {
    rollouts: rows.length,
    reward: sums.reward / all,
    success: sums.success / all,
    turns: sums.turns / all,
    completion_tokens: sums.completion_tokens / all,
    groups_trainable: trained.size,
    training_reward: over(sums.training, sums.n),
    training_n: sums.n,
    entropy: over(sums.surprise, sums.sampled),
  };
}

/** As the learner named it; of a step without an update there is nothing. */
const toldBy = (learnt: StepMetrics | null): Partial<Record<keyof StepMetricsRow, number | null>> => ({
  loss: learnt?.loss ?? null,
  grad_norm: learnt?.gradNorm ?? null,
  kl_base: learnt?.klBase ?? null,
  entropy_trained: learnt?.entropy ?? null,
  updates: learnt?.updates ?? 0,
  sampled_tokens: learnt?.tokens.sampled ?? 0,
});

/** @returns what is wrong, where the metrics of the step are not those of its rollouts, or of its update */
export function checkMeasured(
  step: number,
  groups: readonly CreditedGroup[],
  learnt: StepMetrics | null,
  rows: Iterable<StoredRollout>,
  metrics: StepMetricsRow,
): Wrong {
  const made = new Set(
    groups.flatMap(madeOf).map(({ trajectory: { scenario, index } }) => placeOf(scenario.id, index)),
  );
  const own = [...rows].filter(({ scenario, member }) => made.has(placeOf(scenario, member)));
  for (const [name, wanted] of Object.entries({ ...measured(own), ...toldBy(learnt) })) {
    const found = metrics[name as keyof StepMetricsRow];
    if (isNear(found, wanted)) continue;
    const whose = name in toldBy(learnt) ? "its update" : "its rollouts";
    return otherwise(step, `${name} is ${found} there, and ${whose} had ${wanted}`);
  }
  return undefined;
}

/** @returns what is wrong, where another state than the `best` one was validated with a higher mean reward */
export function checkBest(best: ValidationRow | undefined, validations: readonly ValidationRow[]): Wrong {
  const measured = validations.filter(({ result }) => result.n > 0);
  if (measured.length === 0 && best === undefined) return undefined;
  const highest = Math.max(...measured.map(({ result }) => result.reward));
  if (best?.result.reward === highest) return undefined;
  const taken = best === undefined ? "none" : `that of step ${best.step}, with ${best.result.reward}`;
  return `the highest mean reward of a validation is ${highest}, and the run takes for the best state ${taken}`;
}

export const storedGuard = (reader: StoreReader): Guard => ({
  name: "what is stored, read again",
  sees: "a committed step whose rollouts, tokens, rewards or advantages the run's store has otherwise than they were trained on, and metrics that are not those of its rollouts and its update",
  afterCommit: ({ step, groups, learnt }) =>
    demanding("take the commit back", () => {
      const rows = [...reader.rollouts(step)];
      const metrics = reader.metrics(step);
      const stored = checkStored(step, groups, rows);
      return stored ?? (metrics === null ? undefined : checkMeasured(step, groups, learnt, rows, metrics));
    }),
});

export const bestGuard = (reader: StoreReader): Guard => ({
  name: "the best state, by a second path",
  sees: "a checkpoint that is kept and named as the best, though another was validated with a higher reward",
  afterCommit: () =>
    demanding("refuse", () => {
      const validations = reader.validations();
      return checkBest(bestOf(validations), validations);
    }),
});
