/** `yarn train`: trains a model, or resumes an interrupted run. */

import { givenOf } from "../../core/config/config.js";
import { shareText } from "../../core/run/evaluation.js";
import { difficultyText } from "../../insight/report/difficulty.js";
import { usageText } from "../../insight/report/judge-report.js";
import { shownTraining } from "../../insight/report/train-view.js";
import { rewardsText } from "../../judge/reward/registry.js";
import { trainRun } from "../../trainer/run.js";
import type { TrainSummary } from "../../trainer/summary.js";
import { trainOptions } from "../../trainer/train-options.js";
import { type CommandIo, defineCommand } from "../command.js";

function summaryText({
  run,
  steps,
  seconds,
  difficulty,
  before,
  after,
  best,
  adapter,
  folder,
  mismatch,
  judge,
}: TrainSummary): string {
  const share = (value: TrainSummary["before"]) => (value ? shareText(value) : "–");
  return [
    `${run}: ${steps} ${steps === 1 ? "step" : "steps"}, ${seconds.toFixed(0)} s in this call, kept in ${folder}`,
    ...(difficulty ? [`  ${difficultyText(difficulty)}`] : []),
    `  held-out success before  ${share(before)}`,
    `  held-out success after   ${share(after)}`,
    ...(mismatch
      ? [`  engine and learner differ by ${mismatch.mean.toFixed(4)} on average (p99 ${mismatch.p99.toFixed(3)})`]
      : []),
    ...(judge ? [`  judge, over all calls: ${usageText(judge, 0)}`] : []),
    adapter
      ? `  best adapter (step ${best?.step}, highest mean reward in validation)  ${adapter}`
      : best
        ? "  no adapter had a higher mean reward in validation than the model it started from"
        : `  ${before || after ? "no rollout of a validation counted" : "nothing was validated (--validate-n 0)"}: best is the latest adapter, if a step made one`,
  ].join("\n");
}

/** Trains, and shows the steps. */
export const trainShown = (options: Parameters<typeof trainRun>[0], { signal, progress }: CommandIo) =>
  trainRun(options, { ...shownTraining(progress), signal }).finally(() => progress.clear());

export const trainCommand = defineCommand({
  name: "train",
  epilogue: rewardsText(),
  async run(_, io) {
    const summary = await trainShown(givenOf(io.given, trainOptions), io);
    io.log(summaryText(summary));
    return summary;
  },
});
