/**
 * The figures of an evaluation of one policy on many scenarios. Shares are over all rollouts, not over those that answered.
 */
import { callsIn, type HasCalls, type Trajectory } from "../rollout/trajectory.js";
import { clustered, clustersOf } from "./interval.js";
import type { Evaluation, Kinds } from "./records.js";

interface OfKind {
  readonly scenario: { readonly kind?: string };
  readonly reward: { readonly success: boolean };
}

export function byKind(rollouts: Iterable<OfKind>): Kinds {
  const kinds = new Map<string, { n: number; successes: number }>();
  for (const { scenario, reward } of rollouts) {
    if (scenario.kind === undefined) continue;
    const of = kinds.get(scenario.kind) ?? { n: 0, successes: 0 };
    kinds.set(scenario.kind, { n: of.n + 1, successes: of.successes + (reward.success ? 1 : 0) });
  }
  return Object.fromEntries([...kinds].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** "who 12/39, when 17/43" */
export const kindsText = (kinds: Kinds) =>
  Object.entries(kinds)
    .map(([kind, { n, successes }]) => `${kind} ${successes}/${n}`)
    .join(", ");

export function count(names: Iterable<string>): Record<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return Object.fromEntries([...counts].sort());
}

/** Calls that did not run, by cause, over all sequences of rollouts. */
export const callErrors = (rollouts: readonly HasCalls<{ readonly outcome: string }>[]): Record<string, number> =>
  count(rollouts.flatMap((rollout) => callsIn(rollout).flatMap(({ outcome }) => (outcome === "ok" ? [] : [outcome]))));

/** Sums by name, in the order in which the names appear. */
export function summed(all: readonly object[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const [name, n] of all.flatMap((counts) => Object.entries(counts))) sums[name] = (sums[name] ?? 0) + n;
  return sums;
}

/** "timeout 2, not_json 1"; empty when nothing was counted. */
export function countsText(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, n]) => `${name} ${n}`)
    .join(", ");
}

export function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Mean of each part of the rewards over the rollouts that have it, and their number. */
export function meansOf(
  rewards: readonly Readonly<Record<string, number>>[],
): Record<string, { mean: number; n: number }> {
  const names = [...new Set(rewards.flatMap((parts) => Object.keys(parts)))].sort();
  return Object.fromEntries(
    names.map((name) => {
      const values = rewards.flatMap((parts) => parts[name] ?? []);
      return [name, { mean: mean(values), n: values.length }];
    }),
  );
}

/** "right 0.75 (n=8), short 0.2 (n=8)" */
export const partsText = (parts: Readonly<Record<string, { mean: number; n: number }>>) =>
  Object.entries(parts)
    .map(([name, { mean, n }]) => `${name} ${Number(mean.toFixed(3))} (n=${n})`)
    .join(", ");

/** Of the share of rollouts that succeeded: those of one scenario are one question. */
export const successInterval = (trajectories: readonly Trajectory[]) =>
  clustered(
    clustersOf(
      trajectories,
      ({ scenario }) => scenario.id,
      ({ reward }) => reward.success,
    ),
  );

export function evaluate(
  trajectories: readonly Trajectory[],
  failures: number,
  unjudged: Evaluation["unjudged"] = {},
): Evaluation {
  const n = trajectories.length;
  const successes = trajectories.filter(({ reward }) => reward.success).length;
  return {
    n,
    successes,
    success: n === 0 ? 0 : successes / n,
    ...successInterval(trajectories),
    reward: mean(trajectories.map(({ reward }) => reward.reward)),
    turns: mean(trajectories.map(({ turns }) => turns)),
    completion_tokens: mean(trajectories.map(({ completionTokens }) => completionTokens)),
    parts: meansOf(trajectories.map(({ reward }) => reward.parts)),
    kinds: byKind(trajectories),
    ends: count(trajectories.map(({ end }) => end)),
    tool_errors: callErrors(trajectories),
    failures,
    unjudged,
  };
}

/** A share of successes with its 95 % interval. */
export type Share = Pick<Evaluation, "n" | "success" | "low" | "high">;

/** "45.0 % (95 %: 35.6 to 54.8, n=100)" */
export function shareText({ success, low, high, n }: Share): string {
  if (n === 0) return "– (n=0)";
  return `${(100 * success).toFixed(1)} % (95 %: ${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}, n=${n})`;
}
