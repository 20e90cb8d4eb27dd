/**
 * Conditions under which a run must stop, since going on would waste time or teach the wrong thing. Messages say what to
 * change.
 */

import { countsText, summed } from "../core/run/evaluation.js";
import { type StepMetricsRow, taught } from "../core/run/records.js";
import type { OnlyReward, Wrong } from "../core/train/guard.js";
import { hone } from "../core/util/program.js";

/** Steps in a row without a single group that has a signal. */
export const STEPS_WITHOUT_SPREAD = 10;
/** Steps in a row in which no group had a reward: no verdict of the judge, or fewer than two rollouts to compare. */
export const STEPS_UNREWARDED = 3;
/** Steps in a row whose loss or gradient was not finite. */
export const STEPS_NOT_FINITE = 3;

function countAtEnd<T>(items: readonly T[], matches: (item: T) => boolean): number {
  const lastOther = items.findLastIndex((item) => !matches(item));
  return items.length - 1 - lastOther;
}

/** "20 of 32 rollouts: tool_failure 18, deadline_queue 2" */
function brokenOffText(steps: readonly StepMetricsRow[]): string {
  const all = steps.reduce((sum, { rollouts }) => sum + rollouts, 0);
  const n = steps.reduce((sum, step) => sum + step.rollouts_broken_off, 0);
  return `${n} of ${all} rollouts: ${countsText(summed(steps.map((step) => step.broken_off)))}`;
}

/** @param steps in a row in which no group had a reward */
function unrewardedText(steps: readonly StepMetricsRow[]): string {
  const noVerdict = steps.findLast(({ skipped }) => skipped === "unrewarded");
  const broken = steps.some(({ skipped }) => skipped === "broken_off");
  const judge =
    noVerdict &&
    `the judge gave no verdict that can be used${broken ? "" : ` in ${steps.length} steps in a row`} (the last: ${countsText(noVerdict.groups_no_verdict)}).\nSee its answers with \`${hone("judge")} --debug-judge\` on rollouts of \`${hone("rollouts")} --jsonl\`, or take another --judge-model`;
  const rollouts =
    broken &&
    `no group had two rollouts to compare${noVerdict ? "" : ` in ${steps.length} steps in a row`}, because others ended by no fault of the model (${brokenOffText(steps)}).\nThe \`reason\` of a rollout of \`${hone("rollout")}\` says which tool fails; where time was up raise --tool-timeout, --turn-timeout or --rollout-timeout, or lower --concurrency`;
  if (judge && rollouts)
    return `no group had a reward in ${steps.length} steps in a row.\nIn some ${judge}.\nIn others ${rollouts}`;
  return judge || rollouts || "";
}

/**
 * Checks the steps so far, after one that taught nothing.
 *
 * @param onlyReward of that many last steps; undefined where rewards differ
 * @returns what is wrong, when too many in a row taught nothing or were not finite
 */
export function checkProgress(
  steps: readonly StepMetricsRow[],
  onlyReward: (count: number) => OnlyReward | undefined = () => undefined,
): Wrong {
  const last = steps.at(-1);
  if (!last) return undefined;
  const notFinite = countAtEnd(steps, ({ skipped }) => skipped === "loss" || skipped === "gradient");
  if (notFinite >= STEPS_NOT_FINITE) {
    return `the ${last.skipped} was not a finite number in ${notFinite} steps in a row; these steps changed nothing.\nStart again from an earlier checkpoint (--fork) with a lower --learning-rate or a lower --max-grad-norm`;
  }
  const unrewarded = countAtEnd(steps, ({ skipped }) => skipped === "unrewarded" || skipped === "broken_off");
  if (unrewarded >= STEPS_UNREWARDED) return unrewardedText(steps.slice(-unrewarded));
  const flat = countAtEnd(steps, (step) => !taught(step) && step.skipped !== "loss" && step.skipped !== "gradient");
  if (flat < STEPS_WITHOUT_SPREAD) return undefined;
  const recent = steps.slice(-flat);
  const left = recent.some((step) => step.rollouts_broken_off > 0);
  const leftOut = left ? `, those left out that ended by no fault of the model (${brokenOffText(recent)})` : "";
  const n = recent.reduce((sum, { rollouts }) => sum + rollouts, 0);
  const success = recent.reduce((sum, { rollouts, success }) => sum + rollouts * success, 0) / Math.max(1, n);
  const before = steps.slice(0, -flat).reduce((best, step) => Math.max(best, step.success), 0);
  const truncated = recent.some(({ skipped }) => skipped === "truncated");
  const advice = truncated
    ? "what differed had been ended by a limit and was masked: raise --max-tokens, --max-turns or --context, or leave --mask-truncated out"
    : success < 0.05 && before > 0.2
      ? `it had been ${(100 * before).toFixed(1)} % in an earlier step: the updates have broken the model, start again from an earlier checkpoint (--fork) with a lower --learning-rate`
      : success < 0.05
        ? `the scenarios are too hard for this model: warm it up on expert traces (\`${hone("sft")}\`), take easier scenarios, a larger model or a larger --group-size`
        : success > 0.95
          ? "the model solves them all: take harder scenarios"
          : "every scenario is either always solved or never: raise --group-size or --temperature, or mix scenarios of other difficulty";
  const same = `in each group all rollouts${truncated ? " that are learnt from" : ""} got the same reward`;
  const only = onlyReward(flat);
  // 0 and 1 are what wrong and right answers earn.
  if (only && only.reward !== 0 && only.reward !== 1) {
    return `every rollout of the last ${flat} steps earned ${only.reward}: the reward does not depend on the answer.\nRun \`${hone("check")} ${only.task}\`; if that finds nothing: ${advice}`;
  }
  return `nothing was learnt in ${flat} steps in a row: ${same}${leftOut}, and only differences teach. Success was ${(100 * success).toFixed(1)} % (n=${n}); ${advice}`;
}
