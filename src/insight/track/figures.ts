/** Figures of a run under the names that trackers show: separated by "/", which groups their charts. */
import type { MetricsLine, ValidationRow } from "../../core/run/records.js";

/** Counters by name: a name that is missing counts 0. */
const COUNTED = /^((val\/)?(ends|tool_errors|unjudged)|agent|broken_off|groups_no_verdict|skipped)\//;

/**
 * Adds 0 for counters that earlier rows had and this row lacks: without the point a curve would skip it.
 * @param known names so far; the names of this row are added
 */
export function withZeros(figures: Figures, known: Set<string>): Figures {
  for (const name of Object.keys(figures)) if (COUNTED.test(name)) known.add(name);
  const has = { train: "train/rollouts" in figures, val: "val/n" in figures };
  const zeros = [...known].filter((name) => !(name in figures) && (name.startsWith("val/") ? has.val : has.train));
  return { ...figures, ...Object.fromEntries(zeros.map((name) => [name, 0])) };
}

/** Groups with charts of their own; all other figures of a step are in "train". */
const GROUPS: ReadonlySet<string> = new Set([
  "ends",
  "tool_errors",
  "agent",
  "broken_off",
  "groups_no_verdict",
  "seconds",
  "memory",
  "judge",
]);

export type Figures = Readonly<Record<string, number>>;

/** Numbers by path. Values that are no finite number are left out. */
function flatten(value: unknown, path: string, into: Record<string, number>): void {
  if (typeof value === "number" && Number.isFinite(value)) into[path] = value;
  else if (typeof value === "boolean") into[path] = value ? 1 : 0;
  else if (typeof value === "object" && value !== null) {
    for (const [name, one] of Object.entries(value)) flatten(one, `${path}/${name}`, into);
  }
}

const MEANS = ["reward", "success", "success_low", "success_high", "low", "high", "turns", "completion_tokens"];

/** Of no rollouts there is no share and no mean: the record's are left out. */
const measured = (record: object, n: number): [string, unknown][] =>
  Object.entries(record).filter(([name]) => n > 0 || !MEANS.includes(name));

/** All figures of a line of metrics.jsonl; a step that changed nothing has 1 in "skipped/REASON". */
export function figuresOf({ step: _, skipped, ...line }: MetricsLine): Figures {
  const figures: Record<string, number> = { "train/skipped": skipped === null ? 0 : 1 };
  if (skipped !== null) figures[`skipped/${skipped}`] = 1;
  for (const [name, value] of measured(line, line.rollouts))
    flatten(value, GROUPS.has(name) ? name : `train/${name}`, figures);
  return figures;
}

export function validationFigures({ result, seconds }: Pick<ValidationRow, "result" | "seconds">): Figures {
  const figures: Record<string, number> = {};
  flatten(Object.fromEntries([...measured(result, result.n), ["seconds", seconds]]), "val", figures);
  return figures;
}
