/**
 * Experiments on whether training works: the default run with several seeds, and controls that must not learn. Each
 * runs `yarn train` as a user would, then `yarn eval` on questions that influenced neither training nor the choice of a
 * checkpoint, and on a second world whose people, places, companies and projects are in no training data.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Matrix } from "../../src/report/matrix.js";
import { RunStore } from "../../src/run/store.js";
import { HoneError } from "../../src/util/errors.js";
import { packageRoot } from "../../src/util/paths.js";
import { type Base, baseOf, type Settings } from "./bases.js";

const cli = join(packageRoot, "dist/src/cli.js");

export interface Experiment {
  readonly name: string;
  readonly base: Base;
  /** Flags in addition to `yarn train --model MODEL`. */
  readonly flags: readonly string[];
  readonly control: boolean;
}

/**
 * @param coins seeds of the runs with random rewards: each is a random walk from the base, so a single one says little
 * @param steps of every run and control, other than the default
 */
export function experiments(
  seeds: readonly number[],
  coins: readonly number[],
  steps?: number,
  base = baseOf("tiny"),
): Experiment[] {
  const length: Settings = steps === undefined ? {} : { "--steps": `${steps}` };
  const experiment = (control: boolean, name: string, own: Settings): Experiment => ({
    name,
    base,
    flags: Object.entries({ ...base.settings, ...own, ...length }).flat(),
    control,
  });
  // If the base's settings have a final learning rate, it must be 0 as well.
  const unmoved = "--final-learning-rate" in base.settings ? { "--final-learning-rate": "0" } : {};
  return [
    ...seeds.map((seed) => experiment(false, `seed ${seed}`, { "--seed": `${seed}` })),
    ...coins.map((seed) => experiment(true, `coins ${seed}`, { "--control": "random-reward", "--seed": `${seed}` })),
    experiment(true, "learning rate 0", { "--learning-rate": "0", ...unmoved }),
  ];
}

interface Share {
  success: number;
  low: number;
  high: number;
  n: number;
}

interface Evaluated extends Share {
  checkpoint: string;
  step: number | null;
  kinds: Record<string, { n: number; successes: number }>;
  reward: number;
  turns: number;
  parts: Record<string, { mean: number; n: number }>;
}

export interface Outcome {
  readonly name: string;
  readonly control: boolean;
  readonly commands: readonly string[];
  /** Duration of `yarn train`. */
  readonly seconds: number;
  readonly mismatch: unknown;
  /** The run's own validations, in order of the step. */
  readonly validations: readonly (Share & { step: number })[];
  /** Success rate of each step's training rollouts, from step 1. */
  readonly training: readonly number[];
  /** Seconds by phase, summed over all steps. */
  readonly phases: Record<string, number>;
  /** Test questions that were in no validation, sampled at the training temperature. */
  readonly heldOut: readonly Evaluated[];
  /** The same questions at temperature 0, which solves more even without training. Empty if not requested. */
  readonly greedy: readonly Evaluated[];
  /** Questions of a world with reserved names. Empty if not requested. */
  readonly unseenNames: readonly Evaluated[];
}

interface Databases {
  readonly usual: string;
  readonly reserved: string;
}

const shown = (args: readonly string[]) => `yarn ${args.join(" ")}`;

/** Runs one hone command; its log goes to stderr, its result is returned. */
function hone(args: readonly string[]): unknown {
  const { status, stdout } = spawnSync(process.execPath, [cli, ...args, "--json"], {
    cwd: packageRoot,
    stdio: ["ignore", "pipe", "inherit"],
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new HoneError(`${shown(args)} failed`);
  return JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "null");
}

/** The columns of an evaluation. */
function evaluated(args: readonly string[]): Evaluated[] {
  const { columns } = hone(args) as Pick<Matrix, "columns">;
  return columns.flatMap(({ name, step, result }) => (result ? [{ checkpoint: name, step, ...result.figures }] : []));
}

export function buildDatabases(folder: string): Databases {
  const databases = { usual: join(folder, "mail.db"), reserved: join(folder, "reserved.db") };
  const build = (args: string[]) => execFileSync(process.execPath, [cli, "build-db", ...args], { stdio: "inherit" });
  if (!existsSync(databases.usual)) build(["--db", databases.usual]);
  if (!existsSync(databases.reserved)) build(["--db", databases.reserved, "--names", "reserved", "--mailboxes", "60"]);
  return databases;
}

const round = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, each) => (typeof each === "number" ? Number(each.toPrecision(5)) : each)));

const trainArguments = ({ base: { task, model }, flags }: Experiment) => [
  ...["train", ...(task ? ["--task", task] : [])],
  ...["--model", model, ...flags],
];
const evalArguments = ({ control, base }: Experiment, n: number) => {
  return ["eval", "--checkpoint", `base,${control ? "latest" : base.checkpoint}`, "--n", `${n}`];
};

/** The commands that reproduce the experiment, without the folders. */
export function commandsOf(experiment: Experiment, n: number): string[] {
  const evaluate = evalArguments(experiment, n);
  const evaluations = {
    "held-out": [shown([...evaluate, "--fresh"])],
    greedy: [shown([...evaluate, "--fresh", "--temperature", "0"])],
    "unseen-names": [
      shown(["build-db", "--db", "reserved.db", "--names", "reserved", "--mailboxes", "60"]),
      shown([...evaluate, "--db", "reserved.db"]),
    ],
  };
  return [shown(trainArguments(experiment)), ...experiment.base.evaluations.flatMap((name) => evaluations[name])];
}

/**
 * A finished run is not trained again; an interrupted one is resumed.
 *
 * @param db of the email task; other tasks need none
 */
export function runExperiment(experiment: Experiment, folder: string, db: Databases | undefined, n: number): Outcome {
  const { name, control, base } = experiment;
  const home = ["--home", folder, "--project", "learning", "--run", name.replaceAll(" ", "-")];
  const train = trainArguments(experiment);
  const evaluate = evalArguments(experiment, n);
  const trained = hone([...train, ...(db ? ["--db", db.usual] : []), ...home]) as { folder: string; mismatch: unknown };
  const asked = (evaluation: Base["evaluations"][number], ...flags: string[]) =>
    base.evaluations.includes(evaluation) ? evaluated([...evaluate, ...flags, ...home]) : [];
  const heldOut = asked("held-out", "--fresh");
  const greedy = asked("greedy", "--fresh", "--temperature", "0");
  const unseenNames = db ? asked("unseen-names", "--db", db.reserved) : [];

  const lines = readFileSync(join(trained.folder, "metrics.jsonl"), "utf8").trimEnd().split("\n");
  const steps = lines.map((line) => JSON.parse(line) as { success: number; seconds: Record<string, number> });
  const phases: Record<string, number> = {};
  for (const { seconds } of steps) {
    for (const [phase, value] of Object.entries(seconds)) phases[phase] = (phases[phase] ?? 0) + value;
  }
  const store = RunStore.read(join(trained.folder, "run.sqlite"));
  const validations = store
    .validations()
    .map(({ step, result: { success, low, high, n: count } }) => ({ step, success, low, high, n: count }));
  store.close();
  const keep = ({ checkpoint, step, success, low, high, n: count, kinds, reward, turns, parts }: Evaluated) => ({
    ...{ checkpoint, step, success, low, high, n: count, kinds, reward, turns, parts },
  });
  return round({
    name,
    control,
    commands: commandsOf(experiment, n),
    seconds: phases.total ?? 0,
    mismatch: trained.mismatch,
    validations,
    training: steps.map(({ success }) => success),
    phases,
    heldOut: heldOut.map(keep),
    greedy: greedy.map(keep),
    unseenNames: unseenNames.map(keep),
  }) as Outcome;
}
