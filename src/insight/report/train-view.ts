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

export class TrainView {
  readonly #line: ProgressLine;
  readonly #steps: number;
  readonly #judged: boolean;
  readonly #table: StepTable;
  readonly #begun = performance.now();
  /** The steps that this view has shown. */
  readonly #rewards: number[] = [];
  #last: MetricsLine | undefined;
  /** The step that is played or validated, what is said of it, and how. */
  #playing = 0;
  #title = "";
  #total = 0;
  #tally = new RolloutTally();
  /** The update that runs, beside which other steps may be played. */
  #update: Update | undefined;

  /**
   * @param steps number of steps of the whole run
   * @param judged whether another reward than the task's own trains
   */
  constructor(line: ProgressLine, steps: number, judged = false) {
    this.#line = line;
    this.#steps = steps;
    this.#judged = judged;
    this.#table = new StepTable(steps, judged);
  }

  phase(step: number, phase: string, total: number): void {
    if (phase === "update") {
      const title = `step ${step}/${this.#steps}`;
      this.#update = { title, step, started: performance.now(), phase: "update" };
      // What is played ahead goes on; else it is over.
      if (this.#playing <= step) this.#title = "";
      this.#show();
      return;
    }
    this.#playing = step;
    // What is played before the first step is played to see how hard scenarios are.
    const trained = step === 0 ? "difficulty" : `step ${step}/${this.#steps}`;
    const validation = step === 0 ? "validation of the starting model" : `validation after step ${step}`;
    this.#title = phase === "validation" ? validation : `${trained} ${phase}`;
    this.#total = total;
    this.#tally = new RolloutTally(this.#judged && phase === "rollouts");
    this.#show();
  }

  rollout(rollout: Counted): void {
    this.#tally.add(rollout);
    this.#show();
  }

  /** Adds a group's rewards: a verdict shows in the running reward and its n. */
  rewarded(group: readonly unknown[], reward: RewardLine): void {
    if (!this.#judged) return;
    this.#tally.addVerdict(group.length, reward);
    this.#show();
  }

  progress(progress: { phase: string; done: number; total: number }): void {
    if (!this.#update) this.phase(this.#playing, "update", progress.total);
    (this.#update as Update).phase = learnerProgress(progress);
    this.#show();
  }

  step(line: MetricsLine): void {
    if (this.#update && this.#update.step <= line.step) this.#update = undefined;
    if (this.#playing <= line.step) this.#title = "";
    const legend = this.#rewards.length === 0 ? LEGEND : [];
    if (this.#rewards.length % HEAD_EVERY === 0) this.#line.log([...legend, this.#table.header()].join("\n"));
    this.#rewards.push((this.#judged ? line.training_reward : line.reward) ?? Number.NaN);
    this.#last = line;
    this.#line.log([this.#table.row(line), ...this.#notes(line)].join("\n"));
  }

  /** Notes on a row, on lines of their own. */
  #notes(line: MetricsLine): string[] {
    const { groups_no_verdict: noVerdict, judge, judge_agreement: agreement, reused, failures } = line;
    const notes = [
      line.rollouts === 0 ? "nothing to learn: no rollout was finished" : "",
      line.skipped && line.rollouts > 0 ? (skips[line.skipped] ?? line.skipped) : "",
      line.updates > 0 && line.groups_trainable === 0 ? "in every group all rewards are equal: --kl alone pulled" : "",
      ...(this.#judged ? judgedNotes(line) : []),
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
    return noteLines(notes);
  }

  /** Draws what is running, and below it the state of the run and its last step. */
  #show(): void {
    const lines = () => [
      ...(this.#title === "" ? [] : [`${this.#title} ${this.#tally.line(this.#total)}`]),
      ...(this.#update ? [updateText(this.#update)] : []),
      ...this.#standing(),
    ];
    if (lines().length === 0) this.#line.clear();
    else this.#line.update(() => lines().join("\n"));
  }

  #standing(): string[] {
    if (!this.#last) return [];
    const { step, seconds, memory, loss, mismatch, grad_norm: norm } = this.#last;
    const elapsed = (performance.now() - this.#begun) / 1000;
    // Includes validations between steps, assuming that future ones are as frequent.
    const left = (elapsed / this.#rewards.length) * (this.#steps - step);
    const rate = (this.#last.rollouts * this.#last.completion_tokens) / (seconds.rollouts || Number.NaN);
    const figures = [
      `${compact(rate)} tok/s`,
      ...(loss === null ? [] : [`loss ${compact(loss)}`]),
      ...(norm === null ? [] : [`grad ${compact(norm)}`]),
      ...(mismatch ? [`mismatch ${compact(mismatch.mean)}`] : []),
      ...(memory ? [`learner ${gigabytes(memory.peak)}`] : []),
    ];
    const progress = `${bar(step / this.#steps, 20)} ${step}/${this.#steps} steps  ${clock(elapsed)} < ${clock(left)}  reward `;
    return [
      progress + sparkline(this.#rewards, Math.min(24, this.#line.columns - progress.length)),
      `last step: ${timeText(seconds)}`,
      `  ${figures.join("  ")}`,
    ];
  }

  validation({ step, checkpoint, result, seconds }: ValidationRow): void {
    // It comes after the row of step 1, and is not of that step.
    const start = checkpoint === null ? "untrained model" : "starting model";
    const title = step === 0 ? start : `after step ${step}`;
    const unjudged = countsText(result.unjudged);
    const text = `${title}: success ${shareText(result)}  reward ${result.n > 0 ? compact(result.reward) : "–"}  ${compact(seconds)} s`;
    this.#line.log(
      [text, ...(unjudged ? [`  not counted, without a verdict: ${unjudged}`] : [])]
        .flatMap((line) => wrap(line, WIDTH))
        .join("\n"),
    );
    this.#title = "";
    this.#show();
  }
}
