/** Figures of a run under the names that trackers show: parted by "/", which groups their charts. */
import type { MetricsLine, ValidationRow } from "../run/index.js";

/** Counted by name: what is not named was counted 0 times. */
const COUNTED = /^((val\/)?(ends|tool_errors|unjudged)|broken_off|groups_lost|skipped)\//;

/**
 * Puts 0 where a count that earlier rows had is not named: a curve without the point would run straight past it.
 * @param known names so far; takes those of this row
 */
export function withZeros(figures: Figures, known: Set<string>): Figures {
  for (const name of Object.keys(figures)) if (COUNTED.test(name)) known.add(name);
  const has = { train: "train/rollouts" in figures, val: "val/n" in figures };
  const zeros = [...known].filter((name) => !(name in figures) && (name.startsWith("val/") ? has.val : has.train));
  return { ...figures, ...Object.fromEntries(zeros.map((name) => [name, 0])) };
}

/** Charts of their own; everything else of a step is in "train". */
const GROUPS: ReadonlySet<string> = new Set([
  "ends",
  "tool_errors",
  "broken_off",
  "groups_lost",
  "seconds",
  "memory",
  "judge",
]);

export type Figures = Readonly<Record<string, number>>;

/** Numbers by their path. What is no number, or not finite, is no point of a curve. */
function flatten(value: unknown, path: string, into: Record<string, number>): void {
  if (typeof value === "number" && Number.isFinite(value)) into[path] = value;
  else if (typeof value === "boolean") into[path] = value ? 1 : 0;
  else if (typeof value === "object" && value !== null) {
    for (const [name, one] of Object.entries(value)) flatten(one, `${path}/${name}`, into);
  }
}

/** All figures of a line of metrics.jsonl; a step that changed nothing is 1 in "skipped/REASON". */
export function figuresOf({ step: _, skipped, ...line }: MetricsLine): Figures {
  const figures: Record<string, number> = { "train/skipped": skipped === null ? 0 : 1 };
  if (skipped !== null) figures[`skipped/${skipped}`] = 1;
  for (const [name, value] of Object.entries(line)) flatten(value, GROUPS.has(name) ? name : `train/${name}`, figures);
  return figures;
}

export function validationFigures({ result, seconds }: Pick<ValidationRow, "result" | "seconds">): Figures {
  const figures: Record<string, number> = {};
  flatten({ ...result, seconds }, "val", figures);
  return figures;
}
