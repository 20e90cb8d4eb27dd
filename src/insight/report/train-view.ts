/**
 * Output of training: a table with a row for every step, and below it lines that are redrawn during a phase: the phase, the
 * whole run with its reward, the last step's time and memory. Without a terminal the phase's line is printed now and then.
 */

import { countsText, shareText } from "../../core/run/evaluation.js";
import type { MetricsLine, ValidationRow } from "../../core/run/records.js";
import { hone } from "../../core/util/program.js";
import { clock } from "../../core/util/text.js";
import { usageText } from "./judge-report.js";
import { wrap } from "./played.js";
import { bar, compact, learnerProgress, type ProgressLine, sparkline } from "./progress-line.js";
import { type Counted, RolloutTally } from "./rollout-report.js";
import { judgedNotes, noteLines, StepTable, WIDTH } from "./step-table.js";

/** Outcome of the reward of a group. */
export interface RewardLine {
  readonly kind: string;
  readonly rewards?: readonly number[];
}

export const percent = (share: number) => `${(100 * share).toFixed(1)} %`;

/** Time of a step by phase, the longest first: "8.1 s rollouts, 3.9 s update, 0.2 s other". */
export function timeText(seconds: Readonly<Record<string, number>>): string {
  const { total = 0, ...phases } = seconds;
  const other = total - Object.values(phases).reduce((sum, value) => sum + value, 0);
  return [...Object.entries(phases), ["other", other] as const]
    .filter(([, value]) => value >= 0.05)
    .sort(([, a], [, b]) => b - a)
    .map(([name, value]) => `${value.toFixed(1)} s ${name}`)
    .join(", ");
}

const skips: Readonly<Record<string, string>> = {
  no_spread: "nothing to learn: in every group all rewards are equal",
  unrewarded: "nothing to learn: no group has a reward",
  broken_off: "nothing to learn: no group has two rollouts to compare",
  truncated: "nothing to learn: all that differs in reward was ended by a limit, and is masked",
  loss: "skipped: the loss is not a finite number",
  gradient: "skipped: the gradient is not a finite number",
};

/** "3 rollouts not trained, their end was not the model's: tool_failure 2, deadline_queue 1" */
function brokenOffText({ rollouts_broken_off: n, broken_off: by, groups_broken_off: groups }: MetricsLine): string {
  const left = groups > 0 ? `; ${groups} groups left with fewer than two` : "";
  return `${n} rollouts not trained, their end was not the model's: ${countsText(by)}${left}`;
}

/** "4 updates, 12.5 % of the tokens clipped: 4.5 % below, 8.0 % above" */
function clippedText({ updates, clip_fraction: all, clip_below: below, clip_above: above }: MetricsLine): string {
  const sides = below === null || above === null ? "" : `: ${percent(below)} below, ${percent(above)} above`;
  return `${updates} updates, ${percent(all ?? Number.NaN)} of the tokens clipped${sides}`;
}

/** Above the first header. */
const LEGEND = wrap(
  `n: rollouts; groups: with unequal rewards, of all; mismatch: mean distance of engine and learner, nats; more: ${hone("help metrics")}`,
  WIDTH,
);

/** The table's header is repeated after this many rows. */
const HEAD_EVERY = 25;

const gigabytes = (bytes: number) => `${compact(bytes / 1e9)} GB`;

interface Update {
  readonly step: number;
  readonly title: string;
  readonly started: number;
  /** What the learner does, with how much of it is done where it says that. */
  phase: string;
}

const updateText = ({ title, started, phase }: Update) =>
  `${title} ${phase}  ${clock((performance.now() - started) / 1000)}`;

/** Notes on a row, on lines of their own. */
function notesOf(line: MetricsLine, judged: boolean): string[] {
  const { groups_no_verdict: noVerdict, judge, judge_agreement: agreement, reused, failures } = line;
  return [
    line.rollouts === 0 ? "nothing to learn: no rollout was finished" : "",
    line.skipped && line.rollouts > 0 ? (skips[line.skipped] ?? line.skipped) : "",
    line.updates > 0 && line.groups_trainable === 0 ? "in every group all rewards are equal: --kl alone pulled" : "",
    ...(judged ? judgedNotes(line) : []),
    Object.keys(noVerdict).length > 0 ? `groups left out: ${countsText(noVerdict)}` : "",
    agreement === null ? "" : `votes order ${(100 * agreement).toFixed(0)} % of the pairs alike`,
    judge ? `judge: ${usageText(judge, judge.cached)}` : "",
    line.rollouts_broken_off > 0 ? brokenOffText(line) : "",
    line.updates > 1 ? clippedText(line) : "",
    line.importance_masked ? `${percent(line.importance_masked)} of the tokens masked by --importance-sampling` : "",
    line.overflows > 0 ? `${line.overflows} passes repeated: f16 overflowed` : "",
    line.groups_refilled > 0 ? `${line.groups_refilled} groups refilled` : "",
    line.scenarios_resting > 0 ? `${line.scenarios_resting} scenarios rest` : "",
    line.rollouts_masked > 0 ? `${line.rollouts_masked} truncated rollouts masked` : "",
    reused > 0 ? `${reused} rollouts reused` : "",
    failures > 0 ? `${failures} rollouts failed` : "",
  ].filter(Boolean);
}

/** Handlers of the events of `trainRun`, which show a training on a terminal or in a log. */
export function shownTraining(line: ProgressLine) {
  let [steps, judged] = [0, false];
  let table = new StepTable(steps, judged);
  let begun = performance.now();
  /** Of the steps that have been shown. */
  const rewards: number[] = [];
  let last: MetricsLine | undefined;
  /** The step that is played or validated, what is said of it, and how. */
  let playing = 0;
  let title = "";
  let total = 0;
  let tally = new RolloutTally();
  /** The update that runs, beside which other steps may be played. */
  let update: Update | undefined;

  /** Draws what is running, and below it the state of the run and its last step. */
  function show(): void {
    const lines = () => [
      ...(title === "" ? [] : [`${title} ${tally.line(total)}`]),
      ...(update ? [updateText(update)] : []),
      ...(last ? standing(last) : []),
    ];
    if (lines().length === 0) line.clear();
    else line.update(() => lines().join("\n"));
  }

  function standing({ step, rollouts, completion_tokens: tokens, seconds, memory, ...of }: MetricsLine): string[] {
    const { loss, mismatch, grad_norm: norm } = of;
    const elapsed = (performance.now() - begun) / 1000;
    // Includes validations between steps, assuming that future ones are as frequent.
    const left = (elapsed / rewards.length) * (steps - step);
    const figures = [
      `${compact((rollouts * tokens) / (seconds.rollouts || Number.NaN))} tok/s`,
      ...(loss === null ? [] : [`loss ${compact(loss)}`]),
      ...(norm === null ? [] : [`grad ${compact(norm)}`]),
      ...(mismatch ? [`mismatch ${compact(mismatch.mean)}`] : []),
      ...(memory ? [`learner ${gigabytes(memory.peak)}`] : []),
    ];
    const progress = `${bar(step / steps, 20)} ${step}/${steps} steps  ${clock(elapsed)} < ${clock(left)}  reward `;
    return [
      progress + sparkline(rewards, Math.min(24, line.columns - progress.length)),
      `last step: ${timeText(seconds)}`,
      `  ${figures.join("  ")}`,
    ];
  }

  function begin(step: number): Update {
    update = { title: `step ${step}/${steps}`, step, started: performance.now(), phase: "update" };
    // What is played ahead goes on; else it is over.
    if (playing <= step) title = "";
    return update;
  }

  return {
    log: (text: string) => line.log(text),

    /** `steps`: of the whole run; `judged`: whether another reward than the task's own trains. */
    onStart(start: { readonly steps: number; readonly judged: boolean }): void {
      ({ steps, judged } = start);
      table = new StepTable(steps, judged);
      begun = performance.now();
    },

    onPhase(step: number, phase: string, rollouts: number): void {
      if (phase === "update") begin(step);
      else {
        playing = step;
        // What is played before the first step is played to see how hard scenarios are.
        const trained = step === 0 ? "difficulty" : `step ${step}/${steps}`;
        const validation = step === 0 ? "validation of the starting model" : `validation after step ${step}`;
        title = phase === "validation" ? validation : `${trained} ${phase}`;
        total = rollouts;
        tally = new RolloutTally(judged && phase === "rollouts");
      }
      show();
    },

    onRollout(rollout: Counted): void {
      tally.add(rollout);
      show();
    },

    /** Adds a group's rewards: a verdict shows in the running reward and its n. */
    onRewarded(group: readonly unknown[], reward: RewardLine): void {
      if (!judged) return;
      tally.addVerdict(group.length, reward);
      show();
    },

    onProgress(progress: { phase: string; done: number; total: number }): void {
      (update ?? begin(playing)).phase = learnerProgress(progress);
      show();
    },

    onStep(row: MetricsLine): void {
      if (update && update.step <= row.step) update = undefined;
      if (playing <= row.step) title = "";
      const legend = rewards.length === 0 ? LEGEND : [];
      if (rewards.length % HEAD_EVERY === 0) line.log([...legend, table.header()].join("\n"));
      rewards.push((judged ? row.training_reward : row.reward) ?? Number.NaN);
      last = row;
      line.log([table.row(row), ...noteLines(notesOf(row, judged))].join("\n"));
    },

    onValidation({ step, checkpoint, result, seconds }: ValidationRow): void {
      // It comes after the row of step 1, and is not of that step.
      const start = checkpoint === null ? "untrained model" : "starting model";
      const unjudged = countsText(result.unjudged);
      const reward = result.n > 0 ? compact(result.reward) : "–";
      const text = `${step === 0 ? start : `after step ${step}`}: success ${shareText(result)}  reward ${reward}  ${compact(seconds)} s`;
      line.log(
        [text, ...(unjudged ? [`  not counted, without a verdict: ${unjudged}`] : [])]
          .flatMap((one) => wrap(one, WIDTH))
          .join("\n"),
      );
      title = "";
      show();
    },
  };
}
