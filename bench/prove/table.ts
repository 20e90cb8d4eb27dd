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

/**
 * Of faults from outside: by whom how many are seen.
 * @param unmet those that no guard was written for
 * @param tried those that were tried before guards were written for them
 * @param met those that were not
 */
export function outsideShare(unmet: readonly Outcome[], tried: readonly Outcome[], met: readonly Outcome[]): string {
  const now = tried.map(({ since, ...first }) => since ?? first);
  return wrapped(
    `Faults by an author who had not read the guards, and for which no guard was written ([list](#faults-from-outside)): ${unmet.length} tried, of which are seen: ${countsOf(unmet)}. Guards were written for faults of two earlier lists, so that those say less of faults that nobody has thought of. Of ${tried.length}, tried before that, were seen: ${countsOf(tried)}; now: ${countsOf(now)}. Of ${met.length} others are seen: ${countsOf(met)}.`,
    128,
  ).join("\n");
}

export function outsideTable(faults: readonly Outcome[]): string {
  const rows = faults.map((one) => `| ${one.name} | ${one.family} | ${whereOf(one)} | ${one.guard ?? ""} |`);
  return ["| fault | in | seen | by |", "| --- | --- | --- | --- |", ...rows].join("\n");
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

export function cleanRuns(clean: readonly CleanRun[]): string {
  const steps = clean.reduce((sum, one) => sum + one.steps, 0);
  const distinct = (of: (one: CleanRun) => string) => [...new Set(clean.map(of))].join(", ");
  const shares = clean.map(({ checks }) => 100 * checks);
  const alarms = clean.flatMap(({ alarm }) => (alarm === null ? [] : [alarm]));
  return wrapped(
    `${steps} steps of ${clean.length} runs (models: ${distinct(({ model }) => model)}; weights: ${distinct(({ weights }) => weights)}; engine on: ${distinct(({ device }) => device)}): ${alarms.length === 0 ? "no alarm" : alarms.map((alarm) => cell(alarm.slice(0, 160))).join("; ")}. The guards took ${Math.min(...shares).toFixed(2)} to ${Math.max(...shares).toFixed(2)} % of the time.`,
    128,
  ).join("\n");
}
