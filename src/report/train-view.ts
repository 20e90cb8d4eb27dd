/**
 * What people see of training: one line that is redrawn while a phase runs (printed now and then where there is no
 * terminal), and one line that stays for every step and validation.
 */
import type { Interval } from "./interval.js";
import { bar, clock, compact, ProgressLine } from "./progress-line.js";
import { type Counted, RolloutTally } from "./rollout-report.js";

/** A committed step, as far as its line goes. */
export interface StepLine {
  readonly step: number;
  readonly rollouts: number;
  readonly reward: number;
  readonly success: number;
  readonly groups: number;
  readonly groups_trainable: number;
  readonly failures: number;
  readonly completion_tokens: number;
  readonly skipped: string | null;
  readonly loss: number | null;
  readonly kl: number | null;
  readonly grad_norm: number | null;
  readonly gap: { readonly mean: number } | null;
  readonly seconds: Readonly<Record<string, number>>;
  readonly reused: number;
}

/** A share of successes with its 95 % interval. */
export interface Share extends Interval {
  readonly n: number;
  readonly success: number;
}

export interface ValidationLine {
  readonly step: number;
  readonly result: Share & { readonly reward: number };
  readonly seconds: number;
}

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
  loss: "skipped: the loss is not a finite number",
  gradient: "skipped: the gradient is not a finite number",
};

export class TrainView {
  readonly #line: ProgressLine;
  readonly #steps: number;
  #step = "";
  #title = "";
  #total = 0;
  #tally = new RolloutTally();
  #started = performance.now();

  /** @param steps steps of the whole run */
  constructor(stream: NodeJS.WriteStream, steps: number) {
    this.#line = new ProgressLine(stream);
    this.#steps = steps;
  }

  phase(step: number, phase: string, total: number): void {
    this.#step = `step ${step}/${this.#steps}`;
    this.#title = phase === "validation" ? `validation after step ${step}` : `${this.#step} ${phase}`;
    this.#total = total;
    this.#tally = new RolloutTally();
    this.#started = performance.now();
    this.#line.update(() => this.#title);
  }

  rollout(rollout: Counted): void {
    this.#tally.add(rollout);
    this.#line.update(() => `${this.#title} ${this.#tally.line(this.#total)}`);
  }

  progress({ phase, done, total }: { phase: string; done: number; total: number }): void {
    const seconds = clock((performance.now() - this.#started) / 1000);
    this.#line.update(
      () => `${this.#step} ${phase} ${bar(done / Math.max(1, total), 20)} ${done}/${total}  ${seconds}`,
    );
  }

  step(line: StepLine): void {
    const { seconds, reused, failures } = line;
    const rate = (line.rollouts * line.completion_tokens) / (seconds.rollouts || Number.NaN);
    const learnt = line.skipped
      ? (skips[line.skipped] ?? line.skipped)
      : `loss ${compact(line.loss ?? Number.NaN)}  kl ${compact(line.kl ?? Number.NaN)}  gap ${compact(line.gap?.mean ?? Number.NaN)}  grad ${compact(line.grad_norm ?? Number.NaN)}`;
    const notes = [
      reused > 0 ? `${reused} rollouts reused` : "",
      failures > 0 ? `${failures} rollouts failed` : "",
    ].filter(Boolean);
    this.#line.say(
      [
        `step ${line.step}/${this.#steps}`,
        `reward ${compact(line.reward)} (n=${line.rollouts})`,
        `success ${percent(line.success)}`,
        `groups ${line.groups_trainable}/${line.groups}`,
        learnt,
        `${compact(rate)} tok/s`,
        `${compact(seconds.total ?? 0)} s: ${timeText(seconds)}`,
        ...notes,
      ].join("  "),
    );
  }

  validation({ step, result, seconds }: ValidationLine): void {
    const title = step === 0 ? "before training" : `after step ${step}`;
    this.#line.say(
      `${title}: success ${shareText(result)}  reward ${compact(result.reward)} (n=${result.n})  ${compact(seconds)} s`,
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
