/**
 * Which sections of `yarn gpu-check` are run, in which order: those that have not ended yet, as far as the time goes, then
 * those that failed before. Each has ended in the file before the next begins, so that a killed command goes on where it was.
 */
import { HoneError } from "../../src/core/util/errors.js";
import { NOT_COUNTABLE, type Section } from "./context.js";
import type { Outcome, Results } from "./results.js";

export interface Planned {
  readonly section: Section;
  /** Minutes without which it is not begun, and after which it is cut off. */
  readonly least: number;
  readonly most: number;
}

export interface Hour {
  /** In order. */
  readonly plan: readonly Planned[];
  readonly results: Results;
  /** Of this call. */
  readonly minutes: number;
  /** Also what has ended. */
  readonly again: boolean;
  /** Runs a section, of which it never throws. */
  run(section: Section, minutes: number): Promise<Outcome>;
  log(line: string): void;
  /** Milliseconds. */
  now?(): number;
}

const minutesOf = (minutes: number) => `${Number(minutes.toFixed(1))} ${minutes === 1 ? "minute" : "minutes"}`;

/** @throws HoneError when a section failed or was left out, after all of them */
export async function runHour(hour: Hour): Promise<void> {
  const { plan, results, minutes, again, run, log, now = () => performance.now() } = hour;
  const began = now();
  const stateOf = ({ section }: Planned) => results.now.sections[section.name]?.state;
  const ended = (one: Planned) => !again && ["done", NOT_COUNTABLE].includes(stateOf(one) ?? "");
  for (const one of plan.filter(ended)) log(`${one.section.name}: ${stateOf(one)} before`);
  const open = plan.filter((one) => !ended(one));
  const failed = open.filter((one) => !again && stateOf(one) === "failed");
  const left: Outcome[] = [];
  for (const { section, least, most } of [...open.filter((one) => !failed.includes(one)), ...failed]) {
    const rest = minutes - (now() - began) / 60_000;
    let outcome: Outcome;
    if (rest < least) {
      const problem = `${minutesOf(Math.max(0, rest))} were left, and it needs ${minutesOf(least)}`;
      // What an earlier call knows of it is worth more.
      outcome = { state: "left out", problem };
      if (results.now.sections[section.name]?.state !== "failed") results.set(section.name, outcome);
    } else {
      const limit = Math.min(most, rest);
      log(`${section.name}: ${section.about} (at most ${minutesOf(limit)})`);
      results.set(section.name, { state: "running" });
      outcome = await run(section, limit);
      results.set(section.name, outcome);
    }
    const { state, problem } = outcome;
    log(`${section.name}: ${state}${problem === undefined ? "" : `: ${problem}`}`);
    if (state === "failed" || state === "left out") left.push(outcome);
  }
  if (left.length > 0) throw new HoneError(`${left.length} of ${plan.length} sections did not end well`);
}
