/** One fault tried: a run with it, then `hone replay` without it, then the test that is independent of both. */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { RunReader } from "../../src/machine/runs/reader.js";
import type { Checkout } from "./checkout.js";
import type { Fault, Outcome } from "./fault.js";
import { alarmIn, guardOf } from "./guards.js";

export interface Ground {
  readonly checkout: Checkout;
  /** Of runs; each has a folder of its own in it. */
  readonly folder: string;
  readonly python: string;
}

export interface RunSize {
  readonly model: string;
  readonly steps: number;
  readonly seed: number;
  /** Of a step. Default 2. */
  readonly groups?: number;
  /** Rollouts of a group. Default 8. */
  readonly groupSize?: number;
  /** Of the engine. Default 1. */
  readonly threads?: number;
  /** Whether the last step is made by a process of its own. */
  readonly resumed?: boolean;
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function start(command: string, args: readonly string[], cwd: string, env: NodeJS.ProcessEnv): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.once("error", reject);
    child.once("close", (status) => resolve({ status, stdout, stderr }));
  });
}

const cliOf = (root: string) => join(root, "dist/src/cli.js");

/** Options of a run that has several rollouts of several turns with tools in seconds. */
const runFlags = ({ model, steps, seed, groups = 2, groupSize = 8, threads = 1, flags = [] }: RunSize) => [
  ...["train", "--model", model, "--run", "tried", "--steps", String(steps), "--keep", String(steps + 1)],
  ...["--seed", String(seed), "--groups-per-step", String(groups), "--group-size", String(groupSize)],
  ...(flags.includes("--validate-n") ? [] : ["--validate-n", "1"]),
  ...["--threads", String(threads), ...flags],
];

export interface TriedRun {
  /** Steps that were committed. */
  readonly steps: number;
  /** What hone said of a fault; undefined where it saw none. */
  readonly alarm: string | undefined;
  /** Of the steps' time, what the guards took. */
  readonly checks: number;
  /** The run's folder. */
  readonly run: string;
}

/** Trains in a new folder, with the code of `root`. */
export async function train(
  root: string,
  { folder, python }: Omit<Ground, "checkout">,
  size: RunSize,
): Promise<TriedRun> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const env = { HONE_PYTHON: python, HONE_HOME: join(folder, ".hone"), OMP_NUM_THREADS: "1", ...size.env };
  const ran = (one: RunSize) => start(process.execPath, [cliOf(root), ...runFlags(one)], root, env);
  const first = size.resumed ? await ran({ ...size, steps: size.steps - 1 }) : undefined;
  const { status, stderr } = first === undefined || first.status === 0 ? await ran(size) : first;
  // A command that hone refuses shows nothing of a fault.
  if (status === 2) throw new HoneError(`a run could not begin: ${stderr.trim().split("\n").at(-1)}`);
  const [task = "email"] = existsSync(join(folder, ".hone")) ? readdirSync(join(folder, ".hone")).filter(isTask) : [];
  const run = join(folder, ".hone", task, "models/tried");
  return { ...committed(run), alarm: alarmIn(status, stderr), run };
}

/** Beside the folders of tasks hone's home has files of models. */
const isTask = (name: string) => name !== "gguf" && name !== "models";

function committed(run: string): Pick<TriedRun, "steps" | "checks"> {
  if (!existsSync(join(run, "run.sqlite"))) return { steps: 0, checks: 0 };
  const reader = RunReader.open(run);
  try {
    const rows = reader.steps();
    const timings = rows.flatMap(({ timing }) => timing ?? []);
    const total = timings.reduce((sum, { seconds }) => sum + (seconds.total ?? 0), 0);
    const checks = timings.reduce((sum, one) => sum + one.checks, 0);
    return { steps: rows.at(-1)?.step ?? 0, checks: checks / Math.max(1e-9, total) };
  } finally {
    reader.close();
  }
}

/** What `hone replay` says of the first and the last step, with the unchanged code. */
async function replayed(run: string, { folder, python }: Ground): Promise<string | undefined> {
  const env = { HONE_PYTHON: python, HONE_HOME: join(folder, ".hone"), OMP_NUM_THREADS: "1" };
  const { status, stderr } = await start(
    process.execPath,
    [cliOf(packageRoot), "replay", run, "--gpu", "off"],
    folder,
    env,
  );
  return alarmIn(status, stderr);
}

/** The first failure of a test that runs on the changed code. */
async function tested(test: string, { checkout, python }: Ground): Promise<string | undefined> {
  const root = checkout.folder;
  const isPython = test.endsWith(".py");
  const { status, stdout, stderr } = isPython
    ? await start(python, ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", test], root, { OMP_NUM_THREADS: "1" })
    : await start(process.execPath, ["node_modules/vitest/vitest.mjs", "run", test, "--maxWorkers=1"], root, {});
  if (status === 0) return undefined;
  const failed = `${stdout}\n${stderr}`.match(isPython ? /^(FAILED|ERROR) .*$/m : /FAIL .*$/m)?.[0];
  if (failed === undefined) throw new Error(`${test} did not run on the changed code:\n${stderr.slice(-2000)}`);
  return stripVTControlCharacters(failed)
    .trim()
    .replace(/^(FAILED|FAIL)\s+/, "");
}

const trimmed = (words: string) => (words.length > 400 ? `${words.slice(0, 397)}...` : words);

/** @param size of the run; the fault's own flags are added */
export async function trial(fault: Fault | undefined, ground: Ground, size: RunSize): Promise<Outcome> {
  const { name, family } = fault ?? { name: "none", family: "policy" as const };
  const of = (seen: Outcome["seen"], step: number | null, guard: string | null, words: string | null): Outcome => ({
    ...{
      name,
      family,
      seen,
      step,
      guard,
      words: words && trimmed(stripVTControlCharacters(words).replaceAll(ground.folder, "").trim()),
    },
  });
  return ground.checkout.with(fault ? [fault.patch, ...(fault.also ?? [])] : [], async () => {
    if (fault?.test) {
      const words = await tested(fault.test, ground);
      return words === undefined ? of(null, null, null, null) : of("test", null, fault.test, words);
    }
    const flags = [...(size.flags ?? []), ...(fault?.flags ?? [])];
    const most = fault?.steps ?? size.steps;
    const { threads = 1, resumed = false, groups = 2 } = fault ?? {};
    const { steps, alarm, run } = await train(ground.checkout.folder, ground, {
      ...{ ...size, steps: most, threads, resumed, groups, flags },
    });
    if (alarm !== undefined) return of("run", Math.min(steps + 1, most), guardOf(alarm), alarm);
    const words = await replayed(run, ground);
    if (words === undefined) return of(null, null, null, null);
    return of("replay", Number(words.match(/step (\d+) of/)?.[1] ?? steps), "hone replay", words);
  });
}
