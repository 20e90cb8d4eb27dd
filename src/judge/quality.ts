/**
 * How well a judge judges, measured on groups whose rollouts have labels: the checkable rewards of their task. Intervals are of
 * 95 % and count a group as a cluster. Identical rollouts of a group are one attempt, since the judge sees them once.
 */

import { type Cluster, clustered, type Interval, meanInterval } from "../core/run/interval.js";
import { printable } from "../core/util/text.js";
import { alikeIn, directionOf, type GroupVerdict, pairsOf, type Score } from "./ruler.js";

export interface LabelledGroup {
  readonly verdict: GroupVerdict;
  /** By member of the group: the task's own reward, and whether it solved its scenario. */
  readonly labels: readonly { readonly reward: number; readonly success: boolean }[];
}

/** A share with its interval; null where there is nothing to count. */
export interface QualityShare extends Interval {
  readonly share: number;
  /** Rollouts or pairs. */
  readonly n: number;
}

/** Dollars of one question to the judge, all votes and corrections of it; without an interval for one question alone. */
export interface QualityCost {
  readonly mean: number;
  readonly interval: Interval | null;
  readonly n: number;
}

export interface JudgeQuality {
  /** Groups with scores. */
  readonly groups: number;
  /** Attempts whose score is on the side of 0.5 where their label is. */
  readonly accuracy: QualityShare | null;
  /** Pairs of one group with different labels that the scores order as the labels do; equal scores count as wrong. */
  readonly order: QualityShare | null;
  /** Pairs of one question, scored differently, in which the attempt shown first has the higher score; 0.5 without a bias. */
  readonly first: QualityShare | null;
  /** Pairs with equal labels, scored differently, in which the longer attempt has the higher score; 0.5 without a bias. */
  readonly longer: QualityShare | null;
  /** Pairs that two votes order alike; null with one vote. */
  readonly itself: QualityShare | null;
  /** Groups with different labels in which all scores are nearer together than 0.05, so that nothing is learnt. */
  readonly flat: QualityShare | null;
  /** Null where no price is known, or no question was asked now. */
  readonly cost: QualityCost | null;
}

export function shareOf(clusters: readonly Cluster[]): QualityShare | null {
  const n = clusters.reduce((sum, cluster) => sum + cluster.n, 0);
  if (n === 0) return null;
  return { share: clusters.reduce((sum, cluster) => sum + cluster.successes, 0) / n, n, ...clustered(clusters) };
}

export const counted = (outcomes: readonly boolean[]): Cluster => ({
  n: outcomes.length,
  successes: outcomes.filter(Boolean).length,
});

/** One attempt of a group: its label, its length in characters, its score. */
interface Scored {
  readonly reward: number;
  readonly success: boolean;
  readonly length: number;
  readonly score: number;
}

/** Of a group that was asked now, none of its votes being cached. */
function costIn({ verdict: { votes } }: LabelledGroup): number[] {
  const costs = votes.flatMap(({ exchanges }) => exchanges.map(({ cost }) => cost));
  const known = costs.filter((cost) => cost !== null);
  if (votes.some(({ cached }) => cached) || costs.length === 0 || known.length < costs.length) return [];
  return [known.reduce((sum, cost) => sum + cost, 0)];
}

/** Of the costs of single questions. */
export function costOf(costs: readonly number[]): QualityCost | null {
  if (costs.length === 0) return null;
  const mean = costs.reduce((sum, cost) => sum + cost, 0) / costs.length;
  return { mean, interval: meanInterval(costs), n: costs.length };
}

function attemptsOf({ verdict, labels }: LabelledGroup): Scored[] {
  const { attempts, attemptOf } = verdict.comparison;
  return attempts.map(({ messages }, attempt) => {
    const member = attemptOf.indexOf(attempt);
    const { reward, success } = labels[member] as LabelledGroup["labels"][number];
    const score = verdict.scores?.[member]?.score as number;
    return { reward, success, length: JSON.stringify(messages).length, score };
  });
}

/**
 * The pairs of one group with different labels, and how many of them the scores order as the labels do.
 * @param group with scores
 */
export function orderCluster(group: LabelledGroup): Cluster {
  return counted(
    pairsOf(attemptsOf(group)).flatMap(([a, b]) => {
      const wanted = directionOf(a.reward, b.reward);
      return wanted === 0 ? [] : [directionOf(a.score, b.score) === wanted];
    }),
  );
}

/** @param groups those without scores count for the cost alone */
export function judgeQuality(groups: readonly LabelledGroup[]): JudgeQuality {
  const scored = groups.filter(({ verdict }) => verdict.scores);
  const share = (outcomes: (group: LabelledGroup, pairs: (readonly [Scored, Scored])[]) => boolean[]) =>
    shareOf(scored.map((group) => counted(outcomes(group, pairsOf(attemptsOf(group))))));
  const votesOf = ({ verdict }: LabelledGroup) =>
    verdict.votes.flatMap(({ scores, order }) => (scores ? [{ scores, order }] : []));
  return {
    groups: scored.length,
    accuracy: share((group) => attemptsOf(group).map(({ score, success }) => score >= 0.5 === success)),
    order: shareOf(scored.map(orderCluster)),
    first: share((group) =>
      votesOf(group).flatMap(({ scores, order }) =>
        pairsOf(order).flatMap(([earlier, later]) => {
          const better = directionOf((scores[earlier] as Score).score, (scores[later] as Score).score);
          return better === 0 ? [] : [better > 0];
        }),
      ),
    ),
    longer: share((_, pairs) =>
      pairs.flatMap(([a, b]) => {
        const better = directionOf(a.score, b.score);
        if (directionOf(a.reward, b.reward) !== 0 || better === 0 || a.length === b.length) return [];
        return [better > 0 === a.length > b.length];
      }),
    ),
    itself: share((group) => alikeIn(votesOf(group).map(({ scores }) => scores))),
    flat: share((_, pairs) =>
      pairs.some(([a, b]) => directionOf(a.reward, b.reward) !== 0)
        ? [pairs.every(([a, b]) => directionOf(a.score, b.score) === 0)]
        : [],
    ),
    cost: costOf(groups.flatMap(costIn)),
  };
}

const percent = (value: number) => `${(100 * value).toFixed(0)} %`;

export function line(name: string, share: QualityShare | null, of: string, none: string): string {
  const text = share
    ? `${percent(share.share)} of ${of} (95 %: ${percent(share.low)} to ${percent(share.high)}, n=${share.n})`
    : none;
  return `  ${name.padEnd(20)}${text}`;
}

export function costText(cost: QualityCost | null): string {
  if (!cost) return "– (no price is known, or all was remembered from before)";
  const { mean, interval, n } = cost;
  const dollars = (value: number) => `$${value.toPrecision(3)}`;
  const range = interval ? `95 %: ${dollars(Math.max(0, interval.low))} to ${dollars(interval.high)}, ` : "";
  return `${dollars(mean)} a question (${range}n=${n})`;
}

/**
 * Lines for the terminal.
 * @param judge one of several
 */
export function judgeQualityText(quality: JudgeQuality, judge?: string): string {
  const { order } = quality;
  const noise = order && order.low <= 0.5;
  return [
    `${judge === undefined ? "" : `${printable(judge)} `}against the task's own rewards`,
    line("right side of 0.5", quality.accuracy, "attempts", "–"),
    line("right order", order, "pairs with different rewards", "– (no two attempts of a group have different rewards)"),
    line("no difference", quality.flat, "groups that have one", "–"),
    line("first preferred", quality.first, "pairs scored differently", "–"),
    line("longer preferred", quality.longer, "pairs with equal rewards, scored differently", "–"),
    line("agrees with itself", quality.itself, "pairs in two votes", "– (give --judge-votes 2 or more)"),
    `  ${"costs".padEnd(20)}${costText(quality.cost)}`,
    ...(noise
      ? ["  warning: its order within groups is not told from chance: training on these scores may learn noise"]
      : []),
  ].join("\n");
}
