/**
 * Selects the rollouts of a report file: whole groups, the most interesting first. In turn one of the first steps, one of
 * the last, one with a problem, one of the best, and any other.
 */
import type { StepRow } from "../../core/run/records.js";
import { Random } from "../../core/util/random.js";
import type { Row } from "./wire.js";

interface Group {
  readonly rows: Row[];
  readonly mean: number;
  readonly wrong: number;
}

/** How much of a group is a problem: its step changed nothing, it had no reward, calls did not run, nothing was solved. */
function wrongness(rows: readonly Row[], trained: ReadonlySet<number>): number {
  const { phase, step } = rows[0] as Row;
  const unlearnt = phase === "train" && (!trained.has(step) || rows.every((row) => row.trained === null));
  const wrong = rows.filter(({ failed, success }) => failed.length > 0 || !success).length;
  return (unlearnt ? 1 : 0) + wrong / rows.length;
}

function groupsOf(rows: readonly Row[], steps: readonly StepRow[]): Group[] {
  const trained = new Set(steps.filter(({ metrics }) => !metrics?.skipped).map(({ step }) => step));
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    // Validations play each scenario once; they are groups of one.
    const key = JSON.stringify([row.phase, row.step, row.scenario]);
    const group = groups.get(key);
    if (group) group.push(row);
    else groups.set(key, [row]);
  }
  return [...groups.values()].map((group) => ({
    rows: group,
    mean: group.reduce((sum, { reward }) => sum + reward, 0) / group.length,
    wrong: wrongness(group, trained),
  }));
}

/**
 * @param most rollouts in all; the last group may exceed it
 * @returns rollouts, the most interesting first
 */
export function sampleOf(rows: readonly Row[], steps: readonly StepRow[], most: number): Row[] {
  const groups = groupsOf(rows, steps);
  const lists = [
    groups,
    [...groups].reverse(),
    [...groups].sort((a, b) => b.wrong - a.wrong),
    [...groups].sort((a, b) => b.mean - a.mean),
    new Random("report").sample(groups, groups.length),
  ].map((list) => ({ list, at: 0 }));
  const taken = new Set<Group>();
  const sample: Row[] = [];
  while (sample.length < most && taken.size < groups.length) {
    for (const one of lists) {
      while (one.at < one.list.length && taken.has(one.list[one.at] as Group)) one.at++;
      const group = one.list[one.at];
      if (!group || sample.length >= most) continue;
      taken.add(group);
      sample.push(...group.rows);
    }
  }
  return sample;
}
