// Runs the parts of `.ci/run`. A part begins when those before it have ended well; what mostly waits (for downloads, for apt) runs
// beside everything, what computes one part after the other, since each takes all cores by itself, but for those of single threads
// that leave cores to each other (`beside`). A part's output is shown when it ends, and the last lines of one that failed again after
// all others: of a long log only the end may be kept.
import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { figuresIn } from "./part-reports.mjs";

/**
 * @typedef {{
 *   name: string,
 *   command: readonly string[],
 *   after: readonly string[],
 *   waits?: boolean,
 *   beside?: string,
 *   optional?: boolean,
 *   tests?: string,
 * }} Part `waits`: it computes little; `beside`: the part with which it shares the cores; `optional`: where it fails, tests say
 *   why they do not run; `tests`: which ones it runs, whose figures it leaves in a report
 */

const LAST_LINES = 40;
const BEAT_MS = 60_000;

const shareCores = (one, other) => one.beside === other.name || other.beside === one.name;

/**
 * @param {readonly Part[]} parts those whose turn it is begin in this order
 * @param {{ root: string, reports: string, say: (text: string) => void }} place `root`: where they run; `reports`: the folder of
 *   logs (ci-NAME.log) and of the figures of tests (NAME.json, without "test:")
 * @returns {Promise<{ passed: number, failed: number }>} of all tests; any other part counts where it failed
 */
export async function runParts(parts, { root, reports, say }) {
  const began = performance.now();
  const seconds = (since) => `${Math.round((performance.now() - since) / 1000)} s`;
  const logOf = (name) => join(reports, `ci-${name.replace(":", "-")}.log`);
  const reportOf = (name) => join(reports, `${name.replace("test:", "")}.json`);
  const linesOf = (name) => readFileSync(logOf(name), "utf8").trimEnd().split("\n");

  /** Parts that have begun, by name; `well` once they have ended. */
  const state = new Map();
  const underWay = () => parts.filter(({ name }) => state.has(name) && state.get(name).well === undefined);
  /** An optional part lets those after it begin in any case. */
  const letsBegin = (name) => {
    const well = state.get(name)?.well;
    return well || (well === false && parts.some((part) => part.name === name && part.optional));
  };

  const run = ({ name, command: [program, ...args] }) => {
    const log = openSync(logOf(name), "w");
    const child = spawn(program, args, { cwd: root, stdio: ["ignore", log, log] });
    return new Promise((resolve) => {
      child.once("error", () => resolve(false));
      child.once("close", (status) => resolve(status === 0));
    }).finally(() => closeSync(log));
  };

  const begin = async (part) => {
    const since = performance.now();
    state.set(part.name, { since });
    say(`begins after ${seconds(began)}: ${part.name}`);
    const well = await run(part);
    state.set(part.name, { since, well });
    say(`\n===== ${part.name}: ${well ? "done" : "FAILED"} in ${seconds(since)}\n${linesOf(part.name).join("\n")}`);
  };

  mkdirSync(reports, { recursive: true });
  for (const { name, tests } of parts) {
    rmSync(logOf(name), { force: true });
    if (tests) rmSync(reportOf(name), { force: true });
  }
  const beat = setInterval(() => {
    const each = underWay().map(({ name }) => `${name} ${seconds(state.get(name).since)}`);
    say(`after ${seconds(began)} still at work: ${each.join(", ")}`);
  }, BEAT_MS);
  const running = new Set();
  for (;;) {
    for (const part of parts.filter(({ name, after }) => !state.has(name) && after.every(letsBegin))) {
      if (!part.waits && underWay().some((other) => !other.waits && !shareCores(part, other))) continue;
      const ends = begin(part).finally(() => running.delete(ends));
      running.add(ends);
    }
    if (running.size === 0) break;
    await Promise.race(running);
  }
  clearInterval(beat);

  const sum = { passed: 0, failed: 0 };
  const figures = [];
  for (const { name, optional, tests } of parts) {
    const of = tests === undefined ? undefined : figuresIn(reportOf(name), tests);
    if (of) figures.push(of.line);
    const lost = of ? of.failed : Number(!optional && !state.get(name)?.well);
    sum.passed += of?.passed ?? 0;
    sum.failed += lost;
    if (lost === 0) continue;
    if (state.has(name)) {
      say(`===== ${name} failed; its last lines (all are in ${logOf(name)}):`);
      say(linesOf(name).slice(-LAST_LINES).join("\n"));
    } else say(`===== ${name} did not begin`);
  }
  for (const line of [...figures, `after ${seconds(began)}:`]) say(line);
  return sum;
}
