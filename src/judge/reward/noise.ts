/** Watches in training whether a judge's order within groups is told from chance, where the task's own rewards differ. */

import type { Trajectory } from "../../core/rollout/trajectory.js";
import type { Cluster } from "../../core/run/interval.js";
import { hone } from "../../core/util/program.js";
import { orderCluster, type QualityShare, shareOf } from "../quality.js";
import type { GroupVerdict } from "../ruler.js";

type Watched = Pick<Trajectory, "reward">;

/** Groups with different rewards of the task's own after which the order is looked at. */
const GROUPS = 20;

/**
 * @param log receives one warning, when the 95 % interval of the share of pairs that the judge orders as the task's own
 * rewards reaches 50 % after 20 such groups. A task whose own rewards are all equal says nothing about its judge.
 */
export function watchOrder(log: (text: string) => void): (group: readonly Watched[], verdict: GroupVerdict) => void {
  const seen: Cluster[] = [];
  return (group, verdict) => {
    if (!verdict.scores || seen.length >= GROUPS) return;
    const cluster = orderCluster({ verdict, labels: group.map(({ reward }) => reward) });
    if (cluster.n === 0) return;
    seen.push(cluster);
    if (seen.length < GROUPS) return;
    const { share, n, low, high } = shareOf(seen) as QualityShare;
    if (low > 0.5) return;
    log(
      `warning: the judge orders ${Math.round(share * n)} of ${n} pairs of rollouts as the task's own rewards do (95 %: ${(100 * low).toFixed(0)} to ${(100 * high).toFixed(0)} %, ${GROUPS} groups), which may be chance: its scores may teach noise.\nMeasure it with \`${hone("judge")} --agreement\`; try a larger judge, another rubric or more --judge-votes`,
    );
  };
}
