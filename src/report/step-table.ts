/** Steps of training as rows of one table, each at most 79 characters: a terminal of 80 columns does not wrap them. */
import type { MetricsLine } from "../run/index.js";
import { wilson } from "./interval.js";
import { compact } from "./progress-line.js";

interface Column {
  readonly title: string;
  readonly width: number;
  readonly cell: (line: MetricsLine) => string;
}

const orDash = (value: number | null | undefined) => compact(value ?? Number.NaN);

/** Three significant places in six characters: "1.8e-7" for a small one, "15k" for a large one. */
function short(value: number | null | undefined): string {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  return Math.abs(value) >= 10_000 ? `${compact(value / 1000)}k` : compact(value);
}

/** "66.7 % 46.7–82.0" */
function success({ success: share, rollouts }: MetricsLine): string {
  const { low, high } = wilson(share * rollouts, rollouts);
  const interval = rollouts > 0 ? ` ${(100 * low).toFixed(0)}–${(100 * high).toFixed(0)}` : "";
  return `${(100 * share).toFixed(1)} %${interval.padStart(7)}`;
}

const columns = (steps: number, judged: boolean): readonly Column[] => [
  { title: "step", width: 2 * String(steps).length + 1, cell: ({ step }) => `${step}/${steps}` },
  { title: "success, 95 %", width: 15, cell: success },
  { title: "reward", width: 7, cell: (line) => orDash(judged ? line.training_reward : line.reward) },
  { title: "groups", width: 7, cell: (line) => `${line.groups_trainable}/${line.groups}` },
  { title: "turns", width: 5, cell: ({ turns }) => short(turns) },
  { title: "tokens", width: 6, cell: ({ completion_tokens: tokens }) => short(tokens) },
  { title: "mismatch", width: 8, cell: ({ mismatch_kl: kl }) => short(kl) },
  { title: "seconds", width: 7, cell: ({ seconds }) => short(seconds.total) },
];

export class StepTable {
  readonly #columns: readonly Column[];

  /**
   * @param steps of the whole run
   * @param judged whether training pushes up something else than the task's own reward
   */
  constructor(steps: number, judged = false) {
    this.#columns = columns(steps, judged);
  }

  header(): string {
    return this.#row(({ title }) => title);
  }

  row(line: MetricsLine): string {
    return this.#row(({ cell }) => cell(line));
  }

  #row(text: (column: Column) => string): string {
    return this.#columns.map((column) => text(column).padStart(Math.max(column.width, column.title.length))).join("  ");
  }
}
