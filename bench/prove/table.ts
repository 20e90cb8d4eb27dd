/** The tables of docs/trust.md, from the file of results. */
import type { Outcome } from "./fault.js";

export interface CleanRun {
  readonly model: string;
  readonly weights: string;
  readonly device: string;
  readonly seed: number;
  readonly learningRate: string;
  readonly steps: number;
  /** Of the steps' time, what the guards took. */
  readonly checks: number;
  /** What was said of a fault, which there is not. */
  readonly alarm: string | null;
}

/** What TRL said of a fault; null: nothing. */
export interface TrlOutcome {
  readonly name: string;
  readonly words: string | null;
}

export interface ProveResults {
  readonly hardware: object;
  readonly versions: Readonly<Record<string, string>>;
  readonly faults: readonly Outcome[];
  readonly clean: readonly CleanRun[];
  readonly trl?: { readonly version: string; readonly faults: readonly TrlOutcome[] };
}

const BY = { run: "in the run", replay: "by replay", test: "by a test" } as const;

const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");

const whereOf = ({ seen, step }: Outcome) =>
  seen === null ? "**not seen**" : `${BY[seen]}${step === null ? "" : `, step ${step}`}`;

function row(outcome: Outcome): string {
  const { family, name, guard } = outcome;
  return `| ${family} | ${name} | ${whereOf(outcome)} | ${cell(guard ?? "")} |`;
}

export function faultTable(faults: readonly Outcome[]): string {
  return ["| of | fault | seen | by |", "| --- | --- | --- | --- |", ...faults.map(row)].join("\n");
}

/** "44 faults: 25 seen in the run, 14 by replay, 4 by a test, 1 not seen." */
export function summary(faults: readonly Outcome[]): string {
  const count = (seen: Outcome["seen"]) => faults.filter((one) => one.seen === seen).length;
  return `${faults.length} faults: ${count("run")} seen in the run, ${count("replay")} by replay, ${count("test")} by a test, ${count(null)} not seen.`;
}

export function trlTable(
  { version, faults: theirs }: NonNullable<ProveResults["trl"]>,
  ours: readonly Outcome[],
): string {
  const rows = theirs.map(({ name, words }) => {
    const own = ours.find((one) => one.name === name);
    return `| ${name} | ${own ? whereOf(own) : "not tried"} | ${words === null ? "**silent**" : cell(words.slice(0, 160))} |`;
  });
  return [`| fault | hone | TRL ${version} |`, "| --- | --- | --- |", ...rows].join("\n");
}

export function cleanTable(clean: readonly CleanRun[]): string {
  const rows = clean.map(
    ({ model, weights, device, seed, learningRate, steps, checks, alarm }) =>
      `| ${model} | ${weights} | ${device} | ${seed} | ${learningRate} | ${steps} | ${(100 * checks).toFixed(2)} % | ${alarm === null ? "none" : cell(alarm.slice(0, 160))} |`,
  );
  const all = clean.reduce((sum, { steps }) => sum + steps, 0);
  return [
    `${all} steps:`,
    "",
    "| model | weights | engine on | seed | learning rate | steps | guards' share of their time | alarms |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ...rows,
  ].join("\n");
}
