/** What docs/trust.md says of the faults, from the file of results. */
import { wrapped } from "../../src/core/util/text.js";
import { families, type Outcome } from "./fault.js";

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

/** The first outcome of a fault, with a later one where that is another. */
export function again({ since: _, ...first }: Outcome, { seen, step, guard, words }: Outcome): Outcome {
  const same = first.seen === seen && first.step === step && first.guard === guard;
  return same ? first : { ...first, since: { seen, step, guard, words } };
}

const whereOf = ({ seen, step }: Pick<Outcome, "seen" | "step">) =>
  seen === null ? "**not seen**" : `${BY[seen]}${step === null ? "" : `, step ${step}`}`;

const WAYS = ["run", "replay", "test", null] as const;

/** How many faults of each family were seen by whom. */
export function familyTable(outside: readonly Outcome[], inside: readonly Outcome[]): string {
  const counts = (faults: readonly Outcome[]) =>
    WAYS.map((way) => [way, faults.filter(({ seen }) => seen === way).length] as const)
      .filter(([, count]) => count > 0)
      .map(([way, count]) => `${count} ${way === null ? "**not seen**" : BY[way]}`)
      .join(", ");
  const row = (name: string, of: (one: Outcome) => boolean) =>
    `| ${name} | ${counts(outside.filter(of)) || "–"} | ${counts(inside.filter(of)) || "–"} |`;
  const rows = families.map((family) => row(family, (one) => one.family === family));
  return [
    "| faults in | from outside, earlier | from inside |",
    "| --- | --- | --- |",
    ...rows,
    row("all", () => true),
  ].join("\n");
}

type Seen = Pick<Outcome, "seen">;

/** By whom how many are seen: "3 in the run, 1 by nobody". */
const countsOf = (faults: readonly Seen[]) =>
  WAYS.map((way) => [way, faults.filter(({ seen }) => seen === way).length] as const)
    .filter(([way, count]) => way === "run" || count > 0)
    .map(([way, count]) => `${count} ${way === null ? "by nobody" : BY[way]}`)
    .join(", ");

/** What was seen of a fault last. */
const now = ({ since, ...first }: Outcome): Seen & Pick<Outcome, "step" | "guard"> => since ?? first;

/**
 * Of faults from outside: by whom how many are seen.
 * @param last the list for which no guard was written
 * @param earlier those for which guards were written since
 */
export function outsideShare(last: readonly Outcome[], earlier: readonly Outcome[]): string {
  return wrapped(
    `Faults by authors who had not read the guards, before a guard was written for them ([list](#faults-from-outside)): ${last.length} tried, of which were seen: ${countsOf(last)}. Of ${earlier.length} of earlier lists were seen when they were first tried: ${countsOf(earlier)}; guards were written for them since: ${countsOf(earlier.map(now))}.`,
    128,
  ).join("\n");
}

export function outsideTable(faults: readonly Outcome[]): string {
  const again = faults.some(({ since }) => since !== undefined);
  const rows = faults.map((one) => {
    const latest = now(one);
    const seen = again ? `${whereOf(one)} | ${whereOf(latest)}` : whereOf(one);
    return `| ${one.name} | ${seen} | ${latest.guard ?? ""} |`;
  });
  const head = again ? ["at first", "now"] : ["seen"];
  const columns = ["fault", ...head, "by"];
  return [`| ${columns.join(" | ")} |`, `|${" --- |".repeat(columns.length)}`, ...rows].join("\n");
}

/** Who saw the faults that were put into TRL too. @param ours outcomes of the same faults in hone */
export function trlText({ version, faults }: NonNullable<ProveResults["trl"]>, ours: readonly Outcome[]): string {
  const inRun = faults.filter(({ name }) =>
    ours.some((one) => one.name === name && whereOf(one).startsWith("in the run")),
  );
  const told = faults.flatMap(({ name, words }) => (words === null ? [] : [`${name} ("${words.slice(0, 160)}")`]));
  const silent = faults.filter(({ words }) => words === null).map(({ name }) => name);
  return wrapped(
    `Of ${faults.length} of these faults hone sees ${inRun.length} in the run. TRL ${version} tells ${told.length}: ${told.join("; ")}. It prints no error and no warning of ${silent.join("; ")}; its metrics may move.`,
    128,
  ).join("\n");
}

export function cleanRuns(clean: readonly CleanRun[]): string {
  const steps = clean.reduce((sum, one) => sum + one.steps, 0);
  const distinct = (of: (one: CleanRun) => string) => [...new Set(clean.map(of))].join(", ");
  const shares = clean.map(({ checks }) => 100 * checks);
  const alarms = clean.flatMap(({ alarm }) => (alarm === null ? [] : [alarm]));
  return wrapped(
    `${steps} steps of ${clean.length} runs (models: ${distinct(({ model }) => model)}; weights: ${distinct(({ weights }) => weights)}; engine on: ${distinct(({ device }) => device)}): ${alarms.length === 0 ? "no alarm" : alarms.map((alarm) => cell((alarm.split(" (")[0] ?? "").slice(0, 160))).join("; ")}. The guards took ${Math.min(...shares).toFixed(2)} to ${Math.max(...shares).toFixed(2)} % of the time.`,
    128,
  ).join("\n");
}
