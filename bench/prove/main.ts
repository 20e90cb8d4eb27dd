/**
 * `yarn prove [--only NAME] [--jobs 2] [--clean N] [--out FILE]`: puts each fault of faults.ts into a copy of hone, trains
 * with it, and records who saw it. `--clean N` trains N steps without a fault for each entry of CLEAN instead, and records alarms.
 * The results go to bench/results and, as tables, into docs/trust.md. Rows of other faults in the file are kept.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ensurePython } from "../../src/python-env/index.js";
import { HoneError, messageOf, UsageError } from "../../src/util/errors.js";
import { packageRoot } from "../../src/util/paths.js";
import { readArguments } from "../arguments.js";
import { hardwareOf, versionsOf } from "../hardware.js";
import { runMeasured } from "../process.js";
import { Checkout } from "./checkout.js";
import { writeTables } from "./document.js";
import type { Fault, Outcome } from "./fault.js";
import { faults } from "./faults.js";
import { PROVE_RESULTS } from "./results.js";
import type { CleanRun, ProveResults } from "./table.js";
import { type Ground, train, trial } from "./trial.js";

const CLEAN = [
  { model: "tiny", seed: 1, learningRate: "2e-5" },
  { model: "tiny", seed: 2, learningRate: "2e-4" },
  { model: "tiny", seed: 3, learningRate: "2e-3" },
];
const scratch = join(packageRoot, "build/prove");
const DATABASE = join(scratch, "mail.db");
const SIZE = { model: "tiny", steps: 3, seed: 1, flags: ["--db", DATABASE] };

const parse = () =>
  readArguments(
    () =>
      parseArgs({
        options: {
          only: { type: "string" },
          jobs: { type: "string", default: "2" },
          clean: { type: "string" },
          help: { type: "boolean" },
        },
      }).values,
    "yarn prove",
  );

/** @throws UsageError */
function whole(flag: string, text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number > 0) return number;
  throw new UsageError(`--${flag} ${text}: give a whole number above 0`);
}

/** Done by `jobs` workers, each with what `ground` makes for it. */
async function each<T, G>(
  items: readonly T[],
  jobs: number,
  ground: (job: number) => G,
  work: (item: T, ground: G) => Promise<void>,
) {
  const left = [...items];
  const worker = async (job: number) => {
    if (left.length === 0) return;
    const own = ground(job);
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item, own);
  };
  await Promise.all(Array.from({ length: jobs }, (_, job) => worker(job)));
}

const say = (text: string) => process.stderr.write(`${text}\n`);

function save(changed: { readonly faults?: readonly Outcome[]; readonly clean?: readonly CleanRun[] }): void {
  const before = existsSync(PROVE_RESULTS)
    ? (JSON.parse(readFileSync(PROVE_RESULTS, "utf8")) as ProveResults)
    : undefined;
  const rows = new Map(
    [...(before?.faults ?? []), ...(changed.faults ?? [])].map((one) => [`${one.family} ${one.name}`, one]),
  );
  const sorted = faults.flatMap(({ family, name }) => rows.get(`${family} ${name}`) ?? []);
  const results: ProveResults = {
    ...{ hardware: hardwareOf(undefined), versions: versionsOf(undefined), faults: sorted },
    clean: changed.clean ?? before?.clean ?? [],
  };
  writeFileSync(PROVE_RESULTS, `${JSON.stringify(results, null, 2)}\n`);
  writeTables(results);
}

/** The mail of all runs. */
async function ensureDatabase(): Promise<void> {
  if (existsSync(DATABASE)) return;
  const cli = join(packageRoot, "dist/src/cli.js");
  await runMeasured(process.execPath, [cli, "build-db", "--mailboxes", "40", "--db", DATABASE]);
}

async function proveFaults(chosen: readonly Fault[], jobs: number, python: string): Promise<void> {
  const outcomes: Outcome[] = [];
  const ground = (job: number) => ({
    checkout: new Checkout(join(scratch, `hone-${job}`)),
    folder: join(scratch, `run-${job}`),
    python,
  });
  const tried = async (fault: Fault | undefined, ground: Ground) => {
    const outcome = await trial(fault, ground, SIZE);
    say(
      `${outcome.family}: ${outcome.name}: ${outcome.seen ?? "not seen"} ${outcome.guard ?? ""} ${outcome.words ?? ""}`,
    );
    return outcome;
  };
  // Without a fault no run may say anything: else nothing below means anything.
  if (chosen.some(({ test }) => test === undefined)) {
    const { seen, words } = await tried(undefined, ground(0));
    if (seen !== null) throw new HoneError(`without a fault: ${words}`);
  }
  await each(chosen, jobs, ground, async (fault, ground) => {
    outcomes.push(await tried(fault, ground));
    save({ faults: outcomes });
  });
}

async function proveClean(steps: number, jobs: number, python: string): Promise<void> {
  const clean: CleanRun[] = [];
  const ground = (job: number) => ({ folder: join(scratch, `clean-${job}`), python });
  await each(CLEAN, jobs, ground, async ({ model, seed, learningRate }, ground) => {
    const done = await train(packageRoot, ground, {
      model,
      seed,
      steps,
      flags: [...SIZE.flags, "--learning-rate", learningRate],
    });
    clean.push({ model, seed, learningRate, steps: done.steps, alarm: done.alarm ?? null });
    say(`${model}, seed ${seed}, learning rate ${learningRate}: ${done.steps} steps, ${done.alarm ?? "no alarm"}`);
    save({ clean: [...clean].sort((a, b) => a.seed - b.seed) });
  });
}

try {
  const { only, jobs, clean, help } = parse();
  if (help) {
    say(
      "yarn prove [--only NAME] [--jobs 2]   who sees each fault; --only takes a part of its name or family\nyarn prove --clean N [--jobs 2]   N steps of each clean run: alarms are false",
    );
  } else {
    const chosen = faults.filter(({ name, family }) => only === undefined || `${family} ${name}`.includes(only));
    if (chosen.length === 0) throw new UsageError(`--only ${only}: no fault's name or family has it`);
    const python = await ensurePython({ extras: ["dev"] });
    await ensureDatabase();
    if (clean === undefined) await proveFaults(chosen, whole("jobs", jobs), python);
    else await proveClean(whole("clean", clean), whole("jobs", jobs), python);
  }
} catch (error) {
  if (!(error instanceof HoneError)) throw error;
  say(`prove: ${messageOf(error)}`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
