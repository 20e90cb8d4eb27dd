/** Checkpoints side by side, for people: a column for each. */
import type { Evaluation } from "../run/index.js";
import { compact } from "./progress-line.js";
import { percent } from "./train-view.js";

export interface NamedEvaluation extends Evaluation {
  readonly checkpoint: string;
  readonly step: number | null;
}

type Row = readonly [name: string, cells: readonly string[]];

const titleOf = ({ checkpoint, step }: NamedEvaluation) =>
  step === null ? (checkpoint === "base" ? "base" : `${checkpoint} = base`) : `${checkpoint} (step ${step})`;

/** Names that any of the records has, in order. */
const namesOf = (records: readonly object[]) => [...new Set(records.flatMap((record) => Object.keys(record)))].sort();

function rowsOf(evaluations: readonly NamedEvaluation[]): Row[] {
  const row = (name: string, cell: (one: NamedEvaluation) => string): Row => [name, evaluations.map(cell)];
  const failed = evaluations.some(({ failures }) => failures > 0);
  return [
    row("success", ({ success }) => percent(success)),
    row("  95 % interval", ({ low, high }) => `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}`),
    row("  rollouts", ({ n }) => String(n)),
    ...namesOf(evaluations.map(({ kinds }) => kinds)).map((name) =>
      row(`  ${name}`, ({ kinds: { [name]: kind } }) => (kind ? `${kind.successes} of ${kind.n}` : "–")),
    ),
    row("reward", ({ reward }) => compact(reward)),
    ...namesOf(evaluations.map(({ parts }) => parts)).map((name) =>
      row(`  ${name}`, ({ n, parts: { [name]: part } }) =>
        part ? compact(part.mean) + (part.n === n ? "" : ` (n=${part.n})`) : "–",
      ),
    ),
    row("turns", ({ turns }) => compact(turns)),
    row("tokens written", ({ completion_tokens: tokens }) => compact(tokens)),
    ["ends", evaluations.map(() => "")],
    ...namesOf(evaluations.map(({ ends }) => ends)).map((name) => row(`  ${name}`, ({ ends }) => `${ends[name] ?? 0}`)),
    ["calls that did not run", evaluations.map(({ tool_errors }) => (Object.keys(tool_errors).length > 0 ? "" : "0"))],
    ...namesOf(evaluations.map(({ tool_errors }) => tool_errors)).map((name) =>
      row(`  ${name}`, ({ tool_errors }) => `${tool_errors[name] ?? 0}`),
    ),
    ...(failed ? [row("broken down, not counted", ({ failures }) => `${failures}`)] : []),
    ...namesOf(evaluations.map(({ unjudged }) => unjudged)).map((name) =>
      row(`no verdict (${name}), not counted`, ({ unjudged }) => `${unjudged[name] ?? 0}`),
    ),
  ];
}

/** Means are over all rollouts of a column, unless a cell says over how many. */
export function evalText(evaluations: readonly NamedEvaluation[]): string {
  const rows: Row[] = [["", evaluations.map(titleOf)], ...rowsOf(evaluations)];
  const first = Math.max(...rows.map(([name]) => name.length));
  const widths = evaluations.map((_, column) => Math.max(...rows.map(([, cells]) => (cells[column] ?? "").length)));
  return rows
    .map(([name, cells]) =>
      [name.padEnd(first), ...cells.map((cell, column) => cell.padStart((widths[column] ?? 0) + 2))].join("").trimEnd(),
    )
    .join("\n");
}
