/**
 * Selects the rollouts of a report file: whole groups, the most interesting first. In turn one of the first steps, one of
 * the last, one with a problem, one of the best, and one of all others, evenly over the run.
 */
import type { StepRow } from "../../core/run/records.js";
import type { Row } from "./wire.js";

interface Group {
  readonly step: number;
  readonly rows: Row[];
  readonly mean: number;
  readonly wrong: number;
}

/** Score of the problems of a group: its step changed nothing, it had no reward, calls did not run. */
function wrongness(rows: readonly Row[], skipped: ReadonlySet<number>, committed: ReadonlySet<number>): number {
  const step = rows[0]?.step ?? 0;
  const train = rows[0]?.phase === "train";
  const unrewarded = train && committed.has(step) && rows.every(({ trained }) => trained === null);
  const unfinished = train && !committed.has(step);
  const errors = rows.filter((row) => row.failed.length > 0).length / rows.length;
  const failed = rows.filter(({ success }) => !success).length / rows.length;
  return (train && skipped.has(step) ? 8 : 0) + (unfinished ? 8 : 0) + (unrewarded ? 4 : 0) + errors + failed;
}

function groupsOf(rows: readonly Row[], steps: readonly StepRow[]): Group[] {
  const committed = new Set(steps.map(({ step }) => step));
  const skipped = new Set(steps.filter(({ metrics }) => metrics?.skipped).map(({ step }) => step));
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    // Validations play each scenario once; they are groups of one.
    const key = JSON.stringify([row.phase, row.step, row.scenario]);
    const group = groups.get(key);
    if (group) group.push(row);
    else groups.set(key, [row]);
  }
  return [...groups.values()].map((group) => ({
    step: group[0]?.step ?? 0,
    rows: group,
    mean: group.reduce((sum, { reward }) => sum + reward, 0) / group.length,
    wrong: wrongness(group, skipped, committed),
  }));
}

/** Every n-th item, then those between: a prefix of any length is spread over the whole. */
function spread<T>(all: readonly T[]): T[] {
  const taken: T[] = [];
  const seen = new Set<number>();
  for (let stride = 2 ** Math.ceil(Math.log2(Math.max(1, all.length))); stride >= 1; stride /= 2) {
    for (let i = 0; i < all.length; i += stride) {
      if (seen.has(i)) continue;
      seen.add(i);
      taken.push(all[i] as T);
    }
  }
  return taken;
}

/** Among groups with equal numbers of problems, alternates between steps. */
function worstFirst(groups: readonly Group[]): Group[] {
  const ofStep = new Map<number, number>();
  const ranked = [...groups]
    .sort((a, b) => b.wrong - a.wrong)
    .map((group) => {
      const place = ofStep.get(group.step) ?? 0;
      ofStep.set(group.step, place + 1);
      return { group, rank: group.wrong >= 4 ? place - 1000 : place - group.wrong };
    });
  return ranked.sort((a, b) => a.rank - b.rank).map(({ group }) => group);
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
    worstFirst(groups),
    [...groups].sort((a, b) => b.mean - a.mean),
    spread(groups),
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
