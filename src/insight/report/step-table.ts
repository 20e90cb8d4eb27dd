/** Training steps as rows of a table, each at most 79 characters: a terminal of 80 columns does not wrap them. */
import type { MetricsLine } from "../../core/run/records.js";
import { wrap } from "./played.js";
import { compact } from "./progress-line.js";

/** Width of the output: a terminal of 80 columns does not wrap it. */
export const WIDTH = 79;

interface Column {
  readonly title: string;
  readonly width: number;
  /** Its explanation. */
  readonly about: string;
  readonly cell: (line: MetricsLine) => string;
}

/** Three decimals where they suffice: "-0.012", "12.3". */
function rewardText(value: number | null): string {
  if (value === null) return "–";
  return Math.abs(value) < 10 ? String(Number(value.toFixed(3))) : compact(value);
}

/** Three significant digits in six characters: "1.8e-7" for a small one, "15k" for a large one. */
function short(value: number | null | undefined): string {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  return Math.abs(value) >= 10_000 ? `${compact(value / 1000)}k` : compact(value);
}

/** "66.7 % 46–82" */
function success({ rollouts, success: share, success_low: low, success_high: high }: MetricsLine): string {
  if (rollouts === 0) return "–";
  const interval = low === null || high === null ? "" : `${(100 * low).toFixed(0)}–${(100 * high).toFixed(0)}`;
  return `${(100 * share).toFixed(1)} % ${interval.padStart(6)}`;
}

/** With more steps than this "step/steps" would need the room of other columns. */
const WITH_TOTAL = 99;

const columns = (steps: number, judged: boolean): readonly Column[] => [
  {
    title: "step",
    width: steps > WITH_TOTAL ? String(steps).length : 2 * String(steps).length + 1,
    about: "The step, and how many the run has in all where those are fewer than 100.",
    cell: ({ step }) => (steps > WITH_TOTAL ? String(step) : `${step}/${steps}`),
  },
  {
    title: "success, 95 %",
    width: 14,
    about:
      "Share of the step's rollouts that solved their scenario, and its 95 % interval over scenarios (cluster-robust).",
    cell: success,
  },
  {
    title: "n",
    width: 4,
    about: "Rollouts of the step: what the means are over.",
    cell: ({ rollouts }) => `${rollouts}`,
  },
  {
    title: "reward",
    width: 6,
    about:
      "Mean reward that trained: the task's own; a judge's with --reward ruler or shaped, over the rollouts that it judged. Those steps have a second line with the task's own reward.",
    cell: (line) => rewardText(line.rollouts === 0 ? null : judged ? line.training_reward : line.reward),
  },
  {
    title: "groups",
    width: 6,
    about: "Groups that taught something, of all. One whose rewards are equal, or that has none, teaches nothing.",
    cell: (line) => `${line.groups_trainable}/${line.groups}`,
  },
  { title: "turns", width: 5, about: "Turns of the model in a rollout, mean.", cell: ({ turns }) => short(turns) },
  {
    title: "tokens",
    width: 6,
    about: "Tokens that the model wrote in a rollout, mean.",
    cell: ({ completion_tokens: tokens }) => short(tokens),
  },
  {
    title: "mismatch",
    width: 8,
    about:
      "Mean distance between the engine's and the learner's log-probabilities of the trained tokens, in nats: how far apart the two compute. – without an update.",
    cell: ({ mismatch }) => short(mismatch?.mean),
  },
  { title: "seconds", width: 7, about: "The whole step.", cell: ({ seconds }) => short(seconds.total) },
];

/** Explanation of each column, for `yarn hone help metrics`. */
export const columnTexts = (): { readonly title: string; readonly about: string }[] =>
  columns(1, false).map(({ title, about }) => ({ title, about }));

/** The second line of a judged step: the task's own reward, and the n of the judge's. */
export function judgedNotes(line: MetricsLine): string[] {
  const { training_n: n, rollouts, groups_flat: flat } = line;
  return [
    `independent_reward ${compact(line.reward)} (n=${rollouts})`,
    ...(n === rollouts ? [] : [`reward over n=${n}`]),
    ...(flat > 0 ? [`groups without spread: ${flat}`] : []),
  ];
}

/** Notes as lines below a row. */
export const noteLines = (notes: readonly string[]): string[] => notes.flatMap((note) => wrap(`  ${note}`, WIDTH));

export class StepTable {
  readonly #columns: readonly Column[];

  /**
   * @param steps of the whole run
   * @param judged whether another reward than the task's own trains
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
