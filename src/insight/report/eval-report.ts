/** Several players side by side, for people: a column for each, and below them the differences of each pair. */
import type { Evaluation } from "../../core/run/records.js";
import { tableText } from "../../core/util/text.js";
import type { Contestant, Effort, Matrix } from "./matrix.js";
import type { PairedShares } from "./paired.js";
import { compact } from "./progress-line.js";
import { percent } from "./train-view.js";

export interface TitledEvaluation extends Evaluation {
  readonly title: string;
  readonly effort?: Effort;
  readonly kind?: Contestant["kind"];
}

/** A name and its cells. */
type Row = readonly string[];

/** Heading of a checkpoint's column. */
export const checkpointTitle = (name: string, step: number | null) =>
  step === null ? (/(^|@)base$/.test(name) ? name : `${name} = base`) : `${name} (step ${step})`;

/** "$0.0123"; an API's unknown price is not shown as 0. What plays here has none, unless --prices gives one. */
function costText({ kind, effort }: TitledEvaluation): string {
  if (!effort || (effort.cost === null && kind !== "api")) return "–";
  return effort.cost === null ? "unknown" : `$${compact(effort.cost)}`;
}

/** Names that any of the records has, in order of appearance. */
const namesOf = (records: readonly object[]) => [...new Set(records.flatMap((record) => Object.keys(record)))].sort();

function rowsOf(evaluations: readonly TitledEvaluation[]): Row[] {
  const row = (name: string, cell: (one: TitledEvaluation) => string): Row => [name, ...evaluations.map(cell)];
  // Of no rollouts there is no share and no mean.
  const figure = (name: string, cell: (one: TitledEvaluation) => string) =>
    row(name, (one) => (one.n > 0 ? cell(one) : "–"));
  const failed = evaluations.some(({ failures }) => failures > 0);
  return [
    figure("success", ({ success }) => percent(success)),
    figure("  95 % interval", ({ low, high }) => `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}`),
    row("  rollouts", ({ n }) => String(n)),
    ...namesOf(evaluations.map(({ kinds }) => kinds)).map((name) =>
      row(`  ${name}`, ({ kinds: { [name]: kind } }) => (kind ? `${kind.successes} of ${kind.n}` : "–")),
    ),
    figure("reward", ({ reward }) => compact(reward)),
    ...namesOf(evaluations.map(({ parts }) => parts)).map((name) =>
      row(`  ${name}`, ({ n, parts: { [name]: part } }) =>
        part ? compact(part.mean) + (part.n === n ? "" : ` (n=${part.n})`) : "–",
      ),
    ),
    figure("turns", ({ turns }) => compact(turns)),
    figure("tokens written", ({ completion_tokens: tokens }) => compact(tokens)),
    ...effortRows(evaluations),
    row("ends", () => ""),
    ...namesOf(evaluations.map(({ ends }) => ends)).map((name) => row(`  ${name}`, ({ ends }) => `${ends[name] ?? 0}`)),
    row("calls that did not run", ({ tool_errors }) => (Object.keys(tool_errors).length > 0 ? "" : "0")),
    ...namesOf(evaluations.map(({ tool_errors }) => tool_errors)).map((name) =>
      row(`  ${name}`, ({ tool_errors }) => `${tool_errors[name] ?? 0}`),
    ),
    ...(failed ? [row("broken down, not counted", ({ failures }) => `${failures}`)] : []),
    ...namesOf(evaluations.map(({ unjudged }) => unjudged)).map((name) =>
      row(`no verdict (${name}), not counted`, ({ unjudged }) => `${unjudged[name] ?? 0}`),
    ),
  ];
}

/** Rows of time, tokens and cost, where any column has them. */
function effortRows(evaluations: readonly TitledEvaluation[]): Row[] {
  if (!evaluations.some(({ effort }) => effort)) return [];
  const row = (name: string, cell: (effort: Effort) => string): Row => [
    name,
    ...evaluations.map(({ effort }) => (effort ? cell(effort) : "–")),
  ];
  const costs = evaluations.map(costText);
  return [
    row("tokens given", ({ promptTokens, rollouts }) => compact(promptTokens / rollouts)),
    ...(costs.some((cost) => cost !== "–") ? [["cost", ...costs]] : []),
    row("seconds", ({ seconds }) => compact(seconds)),
  ];
}

/** Means are over all rollouts of a column, unless a cell gives another n. */
export function evalText(evaluations: readonly TitledEvaluation[]): string {
  return tableText([["", ...evaluations.map(({ title }) => title)], ...rowsOf(evaluations)], true);
}

/** "+12.5 (4.1 to 20.3)", in points of success. */
function pointsText({ difference, low, high }: Pick<PairedShares, "difference" | "low" | "high">): string {
  return `${signed(100 * difference, 1)} (${signed(100 * low, 1)} to ${signed(100 * high, 1)})`;
}

const pText = (p: number) => (p < 0.001 ? "<0.001" : p.toFixed(3));

function signed(value: number, places: number): string {
  const text = value.toFixed(places);
  // Avoids -0.0.
  return Number(text) === 0 ? (0).toFixed(places) : value > 0 ? `+${text}` : text;
}

export function matrixText({ columns, pairs, scenarios, split }: Matrix): string {
  const played = columns.flatMap(({ title, kind, result }) =>
    result ? [{ title, kind, ...result.figures, effort: result.effort }] : [],
  );
  const titles = new Map(columns.map(({ name, title }) => [name, title]));
  const rows = pairs.map(({ first, second, success, reward }): Row => {
    const { difference, low, high } = reward;
    const interval = low === null || high === null ? "all alike" : `${signed(low, 3)} to ${signed(high, 3)}`;
    return [
      `  ${titles.get(second)} − ${titles.get(first)}`,
      pointsText(success),
      pText(success.p),
      `${signed(difference, 3)} (${interval})`,
      String(success.n),
    ];
  });
  const head: Row = ["", "points of success", "p", "reward", "n"];
  return [
    `${scenarios.length} ${split} scenarios`,
    ...(played.length > 0 ? [evalText(played)] : []),
    ...(rows.length > 0
      ? [`differences on the same scenarios, with 95 % intervals\n${tableText([head, ...rows], true)}`]
      : []),
    ...columns.flatMap(({ title, problem }) => (problem === null ? [] : [`${title} broke down: ${problem}`])),
  ].join("\n");
}
