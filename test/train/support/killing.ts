/** Runs that are killed at one of their moments and go on, for kill.test.ts and kill.long.test.ts. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "vite";
import { afterAll, beforeAll, expect } from "vitest";
import { packageRoot } from "../../../src/core/util/paths.js";
import { goThrough } from "./fakes.js";
import { stateOf } from "./state.js";

const base = mkdtempSync(join(tmpdir(), "hone-kill-"));
/** Compiled where node_modules is found. */
const compiled = join(packageRoot, "build", `killed-run-${process.pid}`);
/** Processes at once. */
const WIDTH = 2;

interface Outcome {
  signal: NodeJS.Signals | null;
  code: number | null;
  stderr: string;
  /** What happened, in order. */
  moments: string[];
}

/** Runs killed-run.ts. */
function start(folder: string, moment: number, staleness: number): Promise<Outcome> {
  mkdirSync(folder, { recursive: true });
  const log = join(folder, "..", "moments.log");
  return new Promise((resolve, reject) => {
    const args = [join(compiled, "killed-run.js"), folder, log, String(moment), String(staleness)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
    let stderr = "";
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
    });
    child.on("error", reject);
    child.on("exit", (code, signal) => {
      resolve({ code, signal, stderr, moments: readFileSync(log, "utf8").trimEnd().split("\n") });
    });
  });
}

/** Kills a run at `moment`, lets it go on to its end, and compares. */
async function killAndGoOn(moment: number, { state: expected, staleness }: Whole): Promise<void> {
  const folder = join(base, String(moment), "run");
  const killed = await start(folder, moment, staleness);
  expect(killed.signal, killed.stderr).toBe("SIGKILL");
  const where = `killed before moment ${moment}, ${killed.moments.at(-1)}`;

  const played = await goThrough(folder, undefined, staleness);
  expect(stateOf(folder), where).toEqual(expected);

  // A rollout comes twice only when the end came before it could be saved.
  const again = played.filter((name) => killed.moments.includes(name));
  const unsaved = killed.moments.slice(-2).filter((name) => name.startsWith("played"));
  expect(unsaved, where).toEqual(expect.arrayContaining(again));
  rmSync(join(folder, ".."), { recursive: true });
}

export interface Whole {
  staleness: number;
  state: ReturnType<typeof stateOf>;
  moments: string[];
}

/** Compiles killed-run.ts and has it run to its end, before the tests of the file. */
export function beforeKilling(staleness = 0): Whole {
  const whole = { staleness } as Whole;
  beforeAll(async () => {
    await build({
      root: packageRoot,
      configFile: false,
      logLevel: "warn",
      build: { ssr: "test/train/support/killed-run.ts", outDir: compiled, target: "node20", emptyOutDir: true },
    });
    const folder = join(base, "whole", "run");
    const { code, stderr, moments } = await start(folder, 0, staleness);
    expect(code, stderr).toBe(0);
    Object.assign(whole, { state: stateOf(folder), moments });
  });
  afterAll(() => {
    for (const folder of [base, compiled]) rmSync(folder, { recursive: true, force: true });
  });
  return whole;
}

/** Kills a run at every `stride`-th moment, the last included, and compares what becomes of it. */
export async function killAtMoments(whole: Whole, stride: number): Promise<void> {
  const { moments } = whole;
  const queue = moments.map((_, index) => index + 1).filter((moment) => (moments.length - moment) % stride === 0);
  expect(queue.length).toBeGreaterThan(0);
  const work = async () => {
    for (let moment = queue.shift(); moment !== undefined; moment = queue.shift()) await killAndGoOn(moment, whole);
  };
  await Promise.all(Array.from({ length: WIDTH }, work));
}
