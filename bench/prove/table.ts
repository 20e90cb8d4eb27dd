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

/** A line for the faults of a family, by who saw them; which guard it was is in the results. */
export function faultList(faults: readonly Outcome[]): string {
  return families
    .flatMap((family) => {
      const seenBy = (seen: Outcome["seen"]) =>
        faults.filter((one) => one.family === family && one.seen === seen).map(({ name }) => name);
      return (["run", "replay", "test", null] as const)
        .map((seen) => [seen === null ? "**not seen**" : BY[seen], seenBy(seen)] as const)
        .filter(([, names]) => names.length > 0)
        .flatMap(([by, names]) => wrapped(`- ${family}, ${by}: ${names.join("; ")}`, 128))
        .map((line) => (line.startsWith("- ") ? line : `  ${line}`));
    })
    .join("\n");
}

/** Of faults from outside: by whom how many are seen. @param met those that guards were written for */
export function outsideShare(unmet: readonly Outcome[], met: readonly Outcome[]): string {
  const counts = (faults: readonly Outcome[]) =>
    (
      [
        [BY.run, "run"],
        [BY.replay, "replay"],
        [BY.test, "test"],
        ["by nobody", null],
      ] as const
    )
      .map(([by, seen]) => [by, faults.filter((one) => one.seen === seen).length] as const)
      .filter(([by, count]) => by === BY.run || count > 0)
      .map(([by, count]) => `${count} ${by}`)
      .join(", ");
  const since = unmet.filter(({ seen, since }) => seen === null && since?.seen === "run").length;
  const later =
    since === 0
      ? ""
      : ` Guards were then written for what nobody saw: ${since} of these are now seen in the run, which says nothing of faults that nobody has thought of.`;
  return wrapped(
    `Of ${unmet.length} faults whose author had not read the guards, and for which none was written before they were tried, were seen ([which](#faults-from-outside)): ${counts(unmet)}.${later} Of ${met.length} earlier ones, for which guards were then written: ${counts(met)}.`,
    128,
  ).join("\n");
}

export function outsideTable(faults: readonly Outcome[]): string {
  const rows = faults.map(
    ({ since, ...one }) =>
      `| ${one.name} | ${one.family} | ${whereOf(one)} | ${one.guard ?? ""} | ${since ? `${whereOf(since)}: ${since.guard ?? ""}` : ""} |`,
  );
  return ["| fault | in | seen, when first tried | by | since then |", "| --- | --- | --- | --- | --- |", ...rows].join(
    "\n",
  );
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
