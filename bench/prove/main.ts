/**
 * `yarn prove [--only NAME] [--jobs 2] [--clean N] [--trl]`: puts each fault of faults.ts into a copy of hone, trains
 * with it, and records who saw it. `--clean N` trains N steps without a fault instead, over the runs of clean.ts, and records alarms.
 * `--trl` puts ten of them into TRL's trainer. The results go to bench/results and, as tables, into docs/trust.md. Rows of other faults in the file are kept.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { HoneError, messageOf, UsageError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { readArguments } from "../arguments.js";
import { hardwareOf, versionsOf } from "../hardware.js";
import { runMeasured } from "../process.js";
import { Checkout } from "./checkout.js";
import { cleanSettings, deviceOf } from "./clean.js";
import { keyOf, writeTables } from "./document.js";
import type { Fault, Outcome } from "./fault.js";
import { faults } from "./faults.js";
import { PROVE_RESULTS } from "./results.js";
import { again, type CleanRun, type ProveResults } from "./table.js";
import { type Ground, train, trial } from "./trial.js";
import { trlOutcomes, trlVersion } from "./trl.js";

const scratch = join(packageRoot, "build/prove");
const DATABASE = join(scratch, "mail.db");
const SIZE = { model: "tiny", steps: 3, seed: 1, flags: ["--gpu", "off", "--db", DATABASE] };

const parse = () =>
  readArguments(
    () =>
      parseArgs({
        options: {
          only: { type: "string" },
          jobs: { type: "string", default: "2" },
          clean: { type: "string" },
          trl: { type: "boolean" },
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

function save(changed: Partial<Pick<ProveResults, "faults" | "clean" | "trl">>): void {
  const before = existsSync(PROVE_RESULTS)
    ? (JSON.parse(readFileSync(PROVE_RESULTS, "utf8")) as ProveResults)
    : undefined;
  const rows = new Map((before?.faults ?? []).map((one) => [keyOf(one), one]));
  const unmet = new Set(faults.filter(({ outside }) => outside !== undefined && outside !== "met").map(keyOf));
  for (const one of changed.faults ?? []) {
    const first = unmet.has(keyOf(one)) ? rows.get(keyOf(one)) : undefined;
    rows.set(keyOf(one), first ? again(first, one) : one);
  }
  const sorted = faults.flatMap(({ family, name }) => rows.get(keyOf({ family, name })) ?? []);
  const runs = new Map([...(before?.clean ?? []), ...(changed.clean ?? [])].map((one) => [one.seed, one]));
  const trl = changed.trl ?? before?.trl;
  const results: ProveResults = {
    ...(trl ? { trl } : {}),
    ...{ hardware: hardwareOf(undefined), versions: versionsOf(undefined), faults: sorted },
    clean: [...runs.values()].sort((a, b) => a.seed - b.seed),
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

async function proveClean(only: string | undefined, steps: number, jobs: number, python: string): Promise<void> {
  const settings = cleanSettings(DATABASE).filter(
    ({ model, weights, device }) => only === undefined || `${model} ${weights} ${device}`.includes(only),
  );
  if (settings.length === 0) throw new UsageError(`--only ${only}: no model, weights or device of a clean run has it`);
  const clean: CleanRun[] = [];
  const ground = (job: number) => ({ folder: join(scratch, `clean-${job}`), python });
  await each(settings, jobs, ground, async (setting, ground) => {
    const { model, weights, device, seed, learningRate, share, groups, groupSize } = setting;
    const what = `${model}, ${weights}, ${device}, seed ${seed}, learning rate ${learningRate}`;
    const there = await deviceOf(setting);
    if (!there) {
      say(`${what}: not run, there is no such device`);
      return;
    }
    const flags = [...setting.flags, ...there.flags, "--learning-rate", learningRate];
    const size = {
      model,
      seed,
      groups,
      ...(groupSize === undefined ? {} : { groupSize }),
      steps: Math.ceil(share * steps),
      flags,
      env: there.env,
    };
    const { steps: done, checks, alarm = null } = await train(packageRoot, ground, size);
    clean.push({ model, weights, device, seed, learningRate, steps: done, checks, alarm });
    say(`${what}: ${done} steps, ${alarm ?? "no alarm"}`);
    save({ clean });
  });
}

async function proveTrl(python: string): Promise<void> {
  const faults = await trlOutcomes(python, ({ name, words }) => say(`TRL: ${name}: ${words ?? "silent"}`));
  save({ trl: { version: await trlVersion(python), faults } });
}

try {
  const { only, jobs, clean, trl, help } = parse();
  if (help) {
    say(
      "yarn prove [--only NAME] [--jobs 2]   who sees each fault; --only takes a part of its name or family; outside: those from outside, met: those that guards were written for since\nyarn prove --clean N [--jobs 2]   N steps without a fault: alarms are false\nyarn prove --trl                  ten of the faults in TRL's GRPOTrainer",
    );
  } else {
    const chosen = faults.filter(
      ({ name, family, outside }) =>
        only === undefined || `${outside === undefined ? "" : `outside ${outside} `}${family} ${name}`.includes(only),
    );
    if (clean === undefined && chosen.length === 0)
      throw new UsageError(`--only ${only}: no fault's name or family has it`);
    const python = await ensurePython({ extras: ["dev"] });
    if (!trl) await ensureDatabase();
    if (trl) await proveTrl(python);
    else if (clean === undefined) await proveFaults(chosen, whole("jobs", jobs), python);
    else await proveClean(only, whole("clean", clean), whole("jobs", jobs), python);
  }
} catch (error) {
  if (!(error instanceof HoneError)) throw error;
  say(`prove: ${messageOf(error)}`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
