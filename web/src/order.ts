/** The order in which a judged run's rollouts are worth reading: where the judge may be wrong. */
import type { Row, RunView } from "../../src/insight/view/wire.js";

/** Rewards that a judge's scores train with. */
const JUDGED = ["ruler", "composed"];

export const isJudged = ({ options }: Pick<RunView, "options">): boolean => JUDGED.includes(String(options.reward));

/** By how much the reward that trained is above the task's own; undefined where none trained. */
const excessOf = ({ trained, reward }: Row) => (trained === null ? undefined : trained - reward);

/** A high judge's score with a low reward of the task first; rollouts that no judge scored last. Equal ones keep their order. */
export const byExcess = (rows: readonly Row[]): Row[] =>
  [...rows].sort((a, b) => {
    const [one, other] = [excessOf(a), excessOf(b)];
    if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined);
    return other - one;
  });
