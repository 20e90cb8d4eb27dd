/** The contribution of a group and of a rollout to a step's update, or the reason why there was none. */
import type { Row, RunView } from "../../src/insight/view/wire.js";
import { noVerdictText, SKIPPED } from "./diagnose.js";
import { number, words } from "./format.js";

export interface GroupState {
  readonly name: string;
  readonly why: string;
}

const stepOf = (row: Row | undefined, view: RunView) => view.steps.find(({ step }) => step === row?.step);

/** Why a group contributed nothing, or null if it contributed. */
export function groupState(rows: readonly Row[], view: RunView): GroupState | null {
  if (rows[0]?.phase !== "train") return null;
  const step = stepOf(rows[0], view);
  if (!step) return { name: "not committed", why: "its step is not finished" };
  const rewarded = rows.filter(({ trained }) => trained !== null);
  if (rewarded.length === 0) return { name: "no reward", why: whyUnrewarded(rows, step.metrics) };
  if (rewarded.some(({ advantage }) => advantage !== 0)) {
    const skipped = step.metrics?.skipped;
    return skipped ? { name: "step skipped", why: SKIPPED[skipped] ?? words(skipped) } : null;
  }
  const values = rewarded.map(({ trained }) => trained as number);
  const spread = Math.max(...values) - Math.min(...values);
  return spread < 1e-6
    ? { name: "no spread", why: `every reward is ${number(values[0])}` }
    : { name: "no advantage", why: `rewards differ by ${number(spread)} only, or what differs was masked` };
}

/** The run records the reasons for a whole step, so all that are possible for this group are listed. */
function whyUnrewarded(rows: readonly Row[], metrics: RunView["steps"][number]["metrics"]): string {
  const compared = rows.filter(({ brokenOff }) => !brokenOff);
  if (compared.length < Math.min(2, rows.length)) return "too few of its rollouts could be compared";
  const reasons = Object.keys(metrics?.groups_no_verdict ?? {}).map(noVerdictText);
  // A group of identical rollouts is not sent to a judge: it counts as a group without spread.
  const looks = new Set(compared.map(({ end, turns, tokens, reward }) => [end, turns, tokens, reward].join()));
  const alike = looks.size === 1 && (metrics?.groups_flat ?? 0) > 0;
  return [...reasons, ...(alike || reasons.length === 0 ? ["all its rollouts are alike"] : [])].join(", or ");
}

/** The advantage of the rollout in the update; null if its step was skipped. */
export function creditedAdvantage(row: Row, view: RunView): number | null {
  return stepOf(row, view)?.metrics?.skipped ? null : row.advantage;
}
