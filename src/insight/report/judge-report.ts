/** Output about judging: the stages of one verdict (`--debug-judge`), the live line, the total. */

import type { Trajectory } from "../../core/rollout/trajectory.js";
import type { JudgeUsage } from "../../core/run/verdicts.js";
import { type Paint, painter, printable } from "../../core/util/text.js";
import type { GroupVerdict, Vote } from "../../judge/ruler.js";
import { shorten } from "./played.js";
import { compact } from "./progress-line.js";

/** Characters of one line that are shown at most. */
const SHOWN = 1200;

const block = (text: string) =>
  printable(text)
    .split("\n")
    .map((line) => `    ${shorten(line, SHOWN)}`)
    .join("\n");

const number = (value: number) => value.toFixed(2);

/** "12 requests (3 remembered), 40,100 + 2,210 tokens, $0.054" */
export function usageText(usage: JudgeUsage, cached: number): string {
  const { requests, prompt_tokens: prompt, completion_tokens: completion, cost } = usage;
  return [
    `${requests} requests${cached > 0 ? ` (${cached} verdicts remembered)` : ""}`,
    `${compact(prompt)} + ${compact(completion)} tokens`,
    ...(cost === null ? [] : [`$${cost.toFixed(4)}`]),
  ].join(", ");
}

/** Ids of the trajectories behind each id of a vote: identical trajectories share one. */
function sentAs(group: readonly Trajectory[], { comparison }: GroupVerdict, { order }: Vote): string[] {
  return order.map((attempt) =>
    group
      .filter((_, i) => comparison.attemptOf[i] === attempt)
      .map(({ id }) => id)
      .join(", "),
  );
}

function voteText(
  group: readonly Trajectory[],
  verdict: GroupVerdict,
  vote: Vote,
  title: string,
  paint: Paint,
): string {
  const names = sentAs(group, verdict, vote);
  const short = vote.leftOut > 0 ? `, ${compact(vote.leftOut)} characters of tool results left out` : "";
  const answers = vote.exchanges.flatMap(({ answer, problem }, i) => [
    paint("bold", `  ${i === 0 ? "raw answer" : "raw answer after one correction"}`),
    block(answer || "(nothing)"),
    ...(problem === undefined ? [] : [paint("yellow", `  cannot be used: ${printable(problem)}`)]),
  ]);
  const { scores } = vote;
  const parsed = scores
    ? [
        paint("bold", "  parsed scores"),
        ...vote.order.map((attempt, i) => {
          const { score, explanation } = scores[attempt] ?? { score: Number.NaN, explanation: "" };
          return `    trajectory ${i + 1} (${names[i]})  ${paint("bold", number(score))}  ${shorten(printable(explanation), SHOWN)}`;
        }),
      ]
    : [paint("red", `  no verdict: ${vote.noVerdict?.reason}: ${printable(vote.noVerdict?.message ?? "")}`)];
  return [
    paint("bold", `  ${title}sent to the judge${short}`),
    block(vote.material || "(nothing)"),
    ...(vote.cached ? ["  remembered from before, not asked again"] : answers),
    ...parsed,
  ].join("\n");
}

/** Everything about one group's verdict. */
export function groupVerdictText(group: readonly Trajectory[], verdict: GroupVerdict, useColours: boolean): string {
  const paint = painter(useColours);
  const { comparison, votes, scores, noVerdict, agreement } = verdict;
  const different = comparison.attempts.length;
  const head = [
    `${group.length} trajectories`,
    ...(different < group.length ? [`${different} of them different`] : []),
    `common prefix of ${comparison.prefix.length} messages (${comparison.prefix.map(({ role }) => role).join(", ")})`,
  ];
  const rewards = scores
    ? group.map(({ id, reward }, i) => {
        const score = number(scores[i]?.score ?? Number.NaN);
        return `    ${printable(id)}  reward ${paint("bold", score)}  independent_reward ${number(reward.reward)}`;
      })
    : [`    left out: ${noVerdict?.reason}`];
  return [
    `${paint(["bold", "inverse"], ` judging ${printable(group[0]?.scenario.id ?? "")} `)} ${head.join(", ")}`,
    ...votes.map((vote, i) =>
      voteText(
        group,
        verdict,
        vote,
        votes.length > 1
          ? `vote ${i + 1} of ${votes.length}${vote.judge === undefined ? "" : `, of ${printable(vote.judge)}`}: `
          : "",
        paint,
      ),
    ),
    ...(agreement === null ? [] : [`  votes order ${(100 * agreement).toFixed(0)} % of the pairs alike`]),
    paint("bold", "  the group with its new rewards"),
    ...rewards,
    "",
  ].join("\n");
}
