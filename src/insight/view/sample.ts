/**
 * Selects the rollouts of a report file: whole groups, the most interesting first. In turn one of the first steps, one of
 * the last, one with a problem, one of the best, and any other.
 */
import { mean } from "../../core/run/evaluation.js";
import { Random } from "../../core/util/random.js";
import type { Row } from "./wire.js";

/** How much of a group is a problem: nothing was learnt of it, calls did not run, nothing was solved. */
function wrongness(group: readonly Row[]): number {
  const unlearnt = group.every(({ phase, trained }) => phase === "train" && trained === null);
  return Number(unlearnt) + mean(group.map(({ failed, success }) => Number(failed.length > 0 || !success)));
}

/**
 * @param most rollouts in all; the last group may exceed it
 * @returns rollouts, the most interesting first
 */
export function sampleOf(rows: readonly Row[], most: number): Row[] {
  const byName = new Map<string, Row[]>();
  for (const row of rows) {
    // Validations play each scenario once; they are groups of one.
    const name = JSON.stringify([row.phase, row.step, row.scenario]);
    byName.set(name, [...(byName.get(name) ?? []), row]);
  }
  const groups = [...byName.values()];
  const falling = (value: (group: readonly Row[]) => number) =>
    groups
      .map((group) => ({ group, value: value(group) }))
      .sort((a, b) => b.value - a.value)
      .map(({ group }) => group);
  const orders = [
    groups,
    groups.toReversed(),
    falling(wrongness),
    falling((group) => mean(group.map(({ reward }) => reward))),
    new Random("report").sample(groups, groups.length),
  ];
  const sample = new Set<Row>();
  for (const at of groups.keys()) {
    for (const order of orders) {
      if (sample.size >= most) break;
      for (const row of order[at] ?? []) sample.add(row);
    }
  }
  return [...sample];
}
