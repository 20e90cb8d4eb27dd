/**
 * What people see of training: one line that is redrawn while a phase runs (printed now and then where there is no
 * terminal), and one line that stays for every step and validation.
 */
import type { Evaluation, MetricsLine, ValidationRow } from "../run/index.js";
import { countsText } from "./evaluation.js";
import { usageText } from "./judge-report.js";
import { bar, clock, compact, ProgressLine } from "./progress-line.js";
import { type Counted, RolloutTally } from "./rollout-report.js";

/** What has become of a group's rewards. */
export interface RewardLine {
  readonly kind: string;
  readonly rewards?: readonly number[];
}

/** A share of successes with its 95 % interval. */
export type Share = Pick<Evaluation, "n" | "success" | "low" | "high">;

export const percent = (share: number) => `${(100 * share).toFixed(1)} %`;

/** "45.0 % (95 %: 35.6 to 54.8, n=100)" */
export function shareText({ success, low, high, n }: Share): string {
  return `${percent(success)} (95 %: ${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}, n=${n})`;
}

/** Where the time of a step went, the longest first: "8.1 s rollouts, 3.9 s update, 0.2 s other". */
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

export class TrainView {
  readonly #line: ProgressLine;
  readonly #steps: number;
  readonly #judged: boolean;
  #step = "";
  #title = "";
  #total = 0;
  #tally = new RolloutTally();
  #started = performance.now();

  /**
   * @param steps steps of the whole run
   * @param judged whether training pushes up something else than the task's own reward
   */
  constructor(stream: NodeJS.WriteStream, steps: number, judged = false) {
    this.#line = new ProgressLine(stream);
    this.#steps = steps;
    this.#judged = judged;
  }

  phase(step: number, phase: string, total: number): void {
    this.#step = `step ${step}/${this.#steps}`;
    this.#title = phase === "validation" ? `validation after step ${step}` : `${this.#step} ${phase}`;
    this.#total = total;
    this.#tally = new RolloutTally(this.#judged && phase === "rollouts");
    this.#started = performance.now();
    this.#line.update(() => this.#title);
  }

  rollout(rollout: Counted): void {
    this.#tally.add(rollout);
    this.#line.update(() => `${this.#title} ${this.#tally.line(this.#total)}`);
  }

  /** A group's rewards have come: a verdict shows in the running reward and its n. */
  rewarded(group: readonly unknown[], reward: RewardLine): void {
    if (!this.#judged) return;
    this.#tally.addVerdict(group.length, reward);
    this.#line.update(() => `${this.#title} ${this.#tally.line(this.#total)}`);
  }

  progress({ phase, done, total }: { phase: string; done: number; total: number }): void {
    const seconds = clock((performance.now() - this.#started) / 1000);
    this.#line.update(
      () => `${this.#step} ${phase} ${bar(done / Math.max(1, total), 20)} ${done}/${total}  ${seconds}`,
    );
  }

  step(line: MetricsLine): void {
    const { seconds, reused, failures } = line;
    const rate = (line.rollouts * line.completion_tokens) / (seconds.rollouts || Number.NaN);
    const learnt = line.skipped
      ? (skips[line.skipped] ?? line.skipped)
      : `loss ${compact(line.loss ?? Number.NaN)}  mismatch kl ${compact(line.mismatch_kl ?? Number.NaN)}  gap ${compact(line.gap?.mean ?? Number.NaN)}  grad ${compact(line.grad_norm ?? Number.NaN)}`;
    const { groups_flat: flat, groups_lost: lost, judge, judge_agreement: agreement } = line;
    const own = `(n=${line.rollouts})`;
    const rewards = this.#judged
      ? [
          `reward ${compact(line.training_reward ?? Number.NaN)} (n=${line.training_n})`,
          `independent_reward ${compact(line.reward)} ${own}`,
        ]
      : [`reward ${compact(line.reward)} ${own}`];
    const notes = [
      this.#judged && flat > 0 ? `${flat} groups without spread` : "",
      Object.keys(lost).length > 0 ? `groups left out: ${countsText(lost)}` : "",
      agreement === null ? "" : `votes order ${(100 * agreement).toFixed(0)} % of the pairs alike`,
      judge ? `judge: ${usageText(judge, judge.cached)}` : "",
      line.rollouts_broken_off > 0 ? brokenOffText(line) : "",
      line.updates > 1 ? `${line.updates} updates, ${percent(line.clip_fraction ?? Number.NaN)} clipped` : "",
      line.importance_masked ? `${percent(line.importance_masked)} of the tokens masked by --importance-sampling` : "",
      line.overflows > 0 ? `${line.overflows} passes repeated: f16 overflowed` : "",
      line.groups_refilled > 0 ? `${line.groups_refilled} groups refilled` : "",
      line.rollouts_masked > 0 ? `${line.rollouts_masked} truncated rollouts masked` : "",
      reused > 0 ? `${reused} rollouts reused` : "",
      failures > 0 ? `${failures} rollouts failed` : "",
    ].filter(Boolean);
    this.#line.say(
      [
        `step ${line.step}/${this.#steps}`,
        ...rewards,
        `success ${percent(line.success)}`,
        `groups ${line.groups_trainable}/${line.groups}`,
        learnt,
        `${compact(rate)} tok/s`,
        `${compact(seconds.total ?? 0)} s: ${timeText(seconds)}`,
        ...notes,
      ].join("  "),
    );
  }

  validation({ step, result, seconds }: ValidationRow): void {
    const title = step === 0 ? "before training" : `after step ${step}`;
    const unjudged = countsText(result.unjudged);
    this.#line.say(
      `${title}: success ${shareText(result)}  reward ${compact(result.reward)} (n=${result.n})  ${compact(seconds)} s${unjudged ? `  not counted, without a verdict: ${unjudged}` : ""}`,
    );
  }

  say(text: string): void {
    this.#line.say(text);
  }

  /** Takes the progress line away. */
  end(): void {
    this.#line.clear();
  }
}
