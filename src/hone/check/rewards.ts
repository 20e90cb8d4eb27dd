/** Finds defects of a task from what probes earned, or threw. Pure functions. */
import { mean } from "../../core/run/evaluation.js";
import type { Reward } from "../../core/task/task.js";
import { error, type Finding, some, warning } from "./findings.js";
import type { Probe, Probed } from "./probes.js";

const show = (value: number) => String(Number(value.toFixed(3)));

/** Whether an empty answer may well be right: a number, a truth value or one of an enum, which a question can ask for. */
const mayBeRight = (answer: Readonly<Record<string, unknown>> = {}) =>
  Object.values(answer).some((value) => value !== "" && typeof value !== "object");

/** Rollouts in which a tool failed, or other code of the task threw: the same error in several scenarios is reported once. */
export function* failureFindings(probed: readonly Probed[]): Iterable<Finding> {
  const alike = new Map<string, Probed[]>();
  const textOf = ({ error: thrown, outcome }: Probed) =>
    (outcome?.end === "tool_failure" ? outcome.reason : thrown)?.split("\n")[0];
  for (const one of probed) {
    const key = `${one.error === undefined} ${textOf(one)?.replaceAll(one.scenario, "")}`;
    if (textOf(one) !== undefined) alike.set(key, [...(alike.get(key) ?? []), one]);
  }
  for (const [first, ...more] of alike.values()) {
    if (!first) continue;
    const rollouts = `${more.length + 1} of ${probed.length} rollouts (${first.probe}, scenario ${first.scenario})`;
    yield first.error === undefined
      ? error("tool_failed", `${textOf(first)}; in ${rollouts}`)
      : error("task_throws", `the task threw in ${rollouts}: ${textOf(first)}`);
  }
}

interface Earned extends Reward {
  readonly probe: Probe;
  readonly scenario: string;
  readonly answer: Readonly<Record<string, unknown>> | undefined;
}

function* emptyFindings(empty: readonly Earned[], expert: readonly Earned[]): Iterable<Finding> {
  const [first] = empty;
  if (!first) return;
  const written = `an empty answer${first.answer ? `, ${JSON.stringify(first.answer)},` : ""}`;
  const earned = mean(empty.map(({ reward }) => reward));
  const pays = `${written} earns ${show(earned)} on average, no less than the expert`;
  if (expert.length > 0 && earned >= mean(expert.map(({ reward }) => reward)))
    return yield error("empty_answer_wins", pays);
  const won = empty.filter(({ success }) => success);
  const names = some(won.map(({ scenario }) => scenario));
  const solves = `${written} solves ${won.length} of ${empty.length} scenarios; is it right there? ${names}`;
  const level = won.every(({ answer }) => mayBeRight(answer)) ? warning : error;
  if (won.length > 0) yield level("empty_answer_wins", solves);
}

export function* rewardFindings(probed: readonly Probed[]): Iterable<Finding> {
  const played = probed.flatMap(({ probe, scenario, outcome }): Earned[] =>
    // What a failing tool ended says nothing of the reward.
    outcome && outcome.end !== "tool_failure" ? [{ probe, scenario, answer: outcome.answer, ...outcome.reward }] : [],
  );
  const of = (probe: Probe) => played.filter((one) => one.probe === probe);
  const expert = of("expert");
  const [first] = played;
  if (first && played.length > 1 && played.every(({ reward }) => reward === first.reward)) {
    const without = probed.some(({ probe }) => probe === "expert")
      ? ""
      : "; give the task an expert, and check sees whether a right answer earns more";
    const message = `every rollout earned ${show(first.reward)}${expert.length > 0 ? ", the expert's too" : without}: only differences teach`;
    yield (expert.length > 0 ? error : warning)("reward_constant", message);
  } else yield* emptyFindings(of("empty answer"), expert);
  const failed = expert.filter(({ success }) => !success).map(({ scenario }) => scenario);
  const unsolved = `the expert does not solve ${failed.length} of ${expert.length} scenarios: ${some(failed)}`;
  if (failed.length > 0) yield warning("expert_fails", unsolved);
}
