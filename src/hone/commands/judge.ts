/** `yarn hone judge`: lets a judge score the rollouts of a trajectory file (RULER), or decide whether their answers are right. */

import { countsText } from "../../core/run/evaluation.js";
import { HoneError } from "../../core/util/errors.js";
import { clock, printable } from "../../core/util/text.js";
import { type AnswersSummary, judgeAnswers } from "../../insight/judged/answers-file.js";
import { independentReward, type JudgeSummary, judgeFile } from "../../insight/judged/judge-file.js";
import { correctnessQualityText } from "../../insight/report/correctness-quality.js";
import { groupVerdictText, usageText } from "../../insight/report/judge-report.js";
import { bar } from "../../insight/report/progress-line.js";
import { Mean } from "../../insight/report/rollout-report.js";
import { judgeQualityText } from "../../judge/quality.js";
import { defineCommand } from "../command.js";

function summaryText(summary: JudgeSummary, score: Mean, own: Mean): string {
  const {
    groups,
    judged,
    no_verdict: noVerdict,
    cached,
    agreement,
    broken_off: by,
    rollouts_broken_off: broken,
  } = summary;
  const several = Object.keys(summary.quality_by_judge).length > 0;
  return [
    `${judged} of ${groups} groups judged`,
    `  ruler_score         ${judged > 0 ? score : "–"}`,
    `  independent_reward  ${judged > 0 ? own : "–"}`,
    `  left out            ${countsText(noVerdict) || "none"}`,
    ...(broken > 0
      ? [`  not sent            ${broken} rollouts, their end was not the model's: ${countsText(by)}`]
      : []),
    ...(agreement === null ? [] : [`  votes               order ${(100 * agreement).toFixed(0)} % of the pairs alike`]),
    `  judge               ${usageText(summary, cached)}`,
    `  written to          ${summary.trajectories}`,
    ...Object.entries(summary.quality_by_judge).map(([judge, quality]) => judgeQualityText(quality, judge)),
    ...(summary.quality ? [judgeQualityText(summary.quality, several ? "the vote" : undefined)] : []),
  ].join("\n");
}

function answersText(summary: AnswersSummary): string {
  const { rollouts, answers, judged, accepted, no_verdict: noVerdict, cached, out } = summary;
  const several = Object.entries(summary.quality_by_judge);
  return [
    `${judged} of ${answers} answers judged, of ${rollouts} rollouts`,
    `  accepted            ${accepted}`,
    `  left out            ${countsText(noVerdict) || "none"}`,
    `  judge               ${usageText(summary, cached)}`,
    `  written to          ${out}`,
    ...several.map(([judge, quality]) => correctnessQualityText(quality, judge)),
    ...(summary.quality ? [correctnessQualityText(summary.quality, several.length > 0 ? "the vote" : undefined)] : []),
  ].join("\n");
}

/** @throws HoneError where nothing was judged: a script must not go on with an empty file */
function checkJudged(judged: number, noVerdict: Readonly<Record<string, number>>, example: string | undefined): void {
  if (judged > 0) return;
  const why = example === undefined ? "" : ` (the last: ${printable(example)})`;
  throw new HoneError(`nothing was judged: ${countsText(noVerdict)}${why}.\n--debug-judge shows what the judge says`);
}

export const judgeCommand = defineCommand({
  name: "judge",
  required: ["file"],
  positional: "file",
  async run(config, io) {
    const { signal, log, progress } = io;
    const begun = performance.now();
    const took = () => clock((performance.now() - begun) / 1000);
    progress.update(() => `judging  ${took()}`);
    if (config.correctness) {
      const summary = await judgeAnswers(config, {
        signal,
        log,
        onAnswer: ({ id, task, judge, reasoning }, done, answers) => {
          if (config.debugJudge) {
            const says = judge === null ? "no verdict" : judge ? "right" : "wrong";
            log(`${id}: ${says}, by the task ${task ? "right" : "wrong"}: ${reasoning}`);
          }
          progress.update(() => `judging ${bar(done / answers, 20)} ${done}/${answers} answers  ${took()}`);
        },
      });
      log(answersText(summary));
      checkJudged(summary.judged, summary.no_verdict, undefined);
      return summary;
    }
    const score = new Mean();
    const own = new Mean();
    let noVerdict = 0;
    let example: string | undefined;
    const summary = await judgeFile(config, {
      signal,
      log,
      onGroup: ({ scenario, members, verdict }, done, groups) => {
        if (config.debugJudge) {
          io.show(
            verdict
              ? groupVerdictText(members, verdict, io.stream.isTTY)
              : `${printable(scenario)}: not judged, fewer than two of its rollouts ended by the model's own doing`,
          );
        }
        if (!verdict?.scores) noVerdict++;
        example = verdict?.noVerdict?.message ?? example;
        for (const one of verdict?.scores ?? []) score.add(one.score);
        if (verdict?.scores) for (const trajectory of members) own.add(independentReward(trajectory));
        progress.update(
          () =>
            `judging ${bar(done / groups, 20)} ${done}/${groups} groups  reward ${score}  left out ${noVerdict}  ${took()}`,
        );
      },
    });
    log(summaryText(summary, score, own));
    checkJudged(summary.judged, summary.no_verdict, example);
    return summary;
  },
});
