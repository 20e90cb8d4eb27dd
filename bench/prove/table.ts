/** The tables of docs/trust.md, from the file of results. */
import type { Outcome } from "./fault.js";

export interface CleanRun {
  readonly model: string;
  readonly seed: number;
  readonly learningRate: string;
  readonly steps: number;
  /** What was said of a fault, which there is not. */
  readonly alarm: string | null;
}

export interface ProveResults {
  readonly hardware: object;
  readonly versions: Readonly<Record<string, string>>;
  readonly faults: readonly Outcome[];
  readonly clean: readonly CleanRun[];
}

const BY = { run: "in the run", replay: "by replay", test: "by a test" } as const;

const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");

function row({ family, name, seen, step, guard, words }: Outcome): string {
  if (seen === null) return `| ${family} | ${name} | **not seen** | | |`;
  const where = `${BY[seen]}${step === null ? "" : `, step ${step}`}`;
  return `| ${family} | ${name} | ${where} | ${cell(guard ?? "")} | ${cell((words ?? "").slice(0, 160))} |`;
}

export function faultTable(faults: readonly Outcome[]): string {
  return [
    "| of | fault | seen | by | in words (the first 160 letters) |",
    "| --- | --- | --- | --- | --- |",
    ...faults.map(row),
  ].join("\n");
}

/** "44 faults: 25 seen in the run, 14 by replay, 4 by a test, 1 not seen." */
export function summary(faults: readonly Outcome[]): string {
  const count = (seen: Outcome["seen"]) => faults.filter((one) => one.seen === seen).length;
  return `${faults.length} faults: ${count("run")} seen in the run, ${count("replay")} by replay, ${count("test")} by a test, ${count(null)} not seen.`;
}

export function cleanTable(clean: readonly CleanRun[]): string {
  const rows = clean.map(
    ({ model, seed, learningRate, steps, alarm }) =>
      `| ${model} | ${seed} | ${learningRate} | ${steps} | ${alarm === null ? "none" : cell(alarm.slice(0, 160))} |`,
  );
  return ["| model | seed | learning rate | steps | alarms |", "| --- | --- | --- | --- | --- |", ...rows].join("\n");
}
