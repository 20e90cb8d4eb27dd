/**
 * Experiments on whether training works: the default run with several seeds, without partial credit, and controls that must
 * not learn. Each runs `yarn train` as a user would, then `yarn eval` on questions that influenced neither training nor the
 * choice of a checkpoint, and on a second world whose people, places, companies and projects are in no training data.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { RunStore } from "../../src/core/run/store.js";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import type { Matrix, Pair } from "../../src/insight/report/matrix.js";
import type { Base, EvaluationName, Seeds, Settings } from "./bases.js";

const cli = join(packageRoot, "dist/src/cli.js");

/** What trains: the task's reward, success alone, or random rewards. */
export type Kind = "seed" | "success" | "coins";

export interface Experiment {
  readonly name: string;
  readonly kind: Kind;
  readonly base: Base;
  /** Flags in addition to `yarn train --model MODEL`. */
  readonly flags: readonly string[];
}

/** A run that must not learn. */
export const isControl = (kind: Kind): boolean => kind === "coins";

/** @param steps of every run, other than the default */
export function experiments(base: Base, { seeds, coins, success }: Seeds = base.seeds, steps?: number): Experiment[] {
  const length: Settings = steps === undefined ? {} : { "--steps": `${steps}` };
  const experiment = (kind: Kind, name: string, own: Settings): Experiment => ({
    name,
    kind,
    base,
    flags: Object.entries({ ...base.settings, ...own, ...length }).flat(),
  });
  return [
    ...seeds.map((seed) => experiment("seed", `seed ${seed}`, { "--seed": `${seed}` })),
    ...success.map((seed) => experiment("success", `success ${seed}`, { "--reward": "success", "--seed": `${seed}` })),
    ...coins.map((seed) => experiment("coins", `coins ${seed}`, { "--control": "random-reward", "--seed": `${seed}` })),
  ];
}

interface Share {
  success: number;
  low: number;
  high: number;
  n: number;
}

export interface Evaluated extends Share {
  checkpoint: string;
  step: number | null;
  kinds: Record<string, { n: number; successes: number }>;
  reward: number;
  turns: number;
  parts: Record<string, { mean: number; n: number }>;
  /** How rollouts ended, and calls that did not run by cause, counted. */
  ends: Record<string, number>;
  tool_errors: Record<string, number>;
}

export interface Outcome {
  readonly name: string;
  readonly kind: Kind;
  readonly commands: readonly string[];
  /** Duration of `yarn train`. */
  readonly seconds: number;
  readonly mismatch: unknown;
  /** Least effective sample size of a step's importance weights, as a share of its tokens; null without an update. */
  readonly leastEss?: number | null;
  /** The run's own validations, in order of the step. */
  readonly validations: readonly (Share & { step: number })[];
  /** Success rate of each step's training rollouts, from step 1. */
  readonly training: readonly number[];
  /** Seconds by phase, summed over all steps. */
  readonly phases: Record<string, number>;
  /** Test questions that were in no validation, sampled at the training temperature. */
  readonly heldOut: readonly Evaluated[];
  /** Differences of the same on each question, of each two checkpoints. */
  readonly heldOutPairs?: readonly Pair[];
  /** The same questions at temperature 0, which solves more even without training. Empty if not requested. */
  readonly greedy: readonly Evaluated[];
  /** Questions of a world with reserved names, which are in no training data. Empty if not requested. */
  readonly unseenNames: readonly Evaluated[];
  /** The same questions at temperature 0. Empty if not requested. */
  readonly unseenNamesGreedy: readonly Evaluated[];
}

/** Of metrics.jsonl. */
interface Line {
  success: number;
  importance_ess?: number | null;
  seconds: Record<string, number>;
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

interface Evaluation {
  readonly columns: Evaluated[];
  readonly pairs: readonly Pair[];
}

const NONE: Evaluation = { columns: [], pairs: [] };

function evaluated(args: readonly string[]): Evaluation {
  const { columns, pairs } = hone(args) as Pick<Matrix, "columns" | "pairs">;
  return {
    pairs,
    columns: columns.flatMap(({ name, step, result }) =>
      result ? [{ checkpoint: name, step, ...result.figures }] : [],
    ),
  };
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

const taskArguments = ({ task }: Base) => (task ? ["--task", task] : []);
/** Of commands that play the task. */
const playArguments = (base: Base) => [...taskArguments(base), ...(base.set ? ["--set", base.set] : [])];

/** @param imitated the folder that `yarn hone sft` wrote, if the base has imitation */
const trainArguments = ({ base, flags }: Experiment, imitated: string) => [
  "train",
  ...playArguments(base),
  "--model",
  base.model,
  ...flags,
  ...(base.imitation ? ["--fork", imitated] : []),
];
const evalArguments = ({ kind, base }: Experiment, n: number) => {
  // A control of imitation starts from the adapter of the run beside it, which has the base's figures.
  const start = base.imitation ? [...(isControl(kind) ? [] : ["base"]), "0"] : ["base"];
  const checkpoints = [...start, isControl(kind) ? "latest" : base.checkpoint];
  return ["eval", "--checkpoint", checkpoints.join(","), "--n", `${n}`];
};

/** Commands before the run: the expert's rollouts, written to `file`, and their imitation, written to `folder`. */
function imitationArguments(base: Base, file: string, folder: string): { play: string[]; learn: string[] } | undefined {
  if (!base.imitation) return undefined;
  const { rollouts, settings } = base.imitation;
  return {
    play: [
      "rollout",
      ...playArguments(base),
      "--expert",
      "--split",
      "train",
      "--n",
      `${rollouts}`,
      "--group-size",
      "1",
      "--out",
      file,
    ],
    learn: [
      "hone",
      "sft",
      file,
      ...taskArguments(base),
      "--model",
      base.model,
      ...Object.entries(settings).flat(),
      "--out",
      folder,
    ],
  };
}

/** Makes the imitating adapter where it is not there. @returns its folder */
function imitate(base: Base, home: string, db: Databases | undefined): string {
  const folder = join(home, "imitated");
  const file = join(home, "expert.jsonl");
  const stages = imitationArguments(base, file, folder);
  if (!stages || existsSync(join(folder, "manifest.json"))) return folder;
  hone([...stages.play, "--home", home, ...(db ? ["--db", db.usual] : [])]);
  hone([...stages.learn.slice(1), "--home", home]);
  return folder;
}

/** The commands that reproduce the experiment, without the folders. */
export function commandsOf(experiment: Experiment, n: number): string[] {
  const evaluate = evalArguments(experiment, n);
  const evaluations: Readonly<Record<EvaluationName, readonly string[]>> = {
    "held-out": [shown([...evaluate, "--fresh"])],
    greedy: [shown([...evaluate, "--fresh", "--temperature", "0"])],
    "unseen-names": [
      shown(["build-db", "--db", "reserved.db", "--names", "reserved", "--mailboxes", "60"]),
      shown([...evaluate, "--db", "reserved.db"]),
    ],
    "unseen-names-greedy": [shown([...evaluate, "--db", "reserved.db", "--temperature", "0"])],
  };
  const stages = imitationArguments(experiment.base, "expert.jsonl", "imitated");
  return [
    ...(stages ? [shown(stages.play), shown(stages.learn)] : []),
    shown(trainArguments(experiment, "imitated")),
    ...experiment.base.evaluations.flatMap((name) => evaluations[name]),
  ];
}

/**
 * A finished run is not trained again; an interrupted one is resumed.
 *
 * @param model of the base, as it is reached here
 * @param db of the email task; other tasks need none
 */
export function runExperiment(
  experiment: Experiment,
  model: string,
  folder: string,
  db: Databases | undefined,
  n: number,
): Outcome {
  const { name, kind } = experiment;
  const base: Base = { ...experiment.base, model };
  const home = ["--home", folder, "--project", "learning", "--run", name.replaceAll(" ", "-")];
  const train = trainArguments({ ...experiment, base }, imitate(base, folder, db));
  const evaluate = evalArguments(experiment, n);
  const trained = hone([...train, ...(db ? ["--db", db.usual] : []), ...home]) as { folder: string; mismatch: unknown };
  const asked = (evaluation: EvaluationName, ...flags: string[]) =>
    base.evaluations.includes(evaluation) ? evaluated([...evaluate, ...flags, ...home]) : NONE;
  const greedily = ["--temperature", "0"];
  const heldOut = asked("held-out", "--fresh");
  const greedy = asked("greedy", "--fresh", ...greedily);
  const unseenNames = db ? asked("unseen-names", "--db", db.reserved) : NONE;
  const unseenNamesGreedy = db ? asked("unseen-names-greedy", "--db", db.reserved, ...greedily) : NONE;

  const lines = readFileSync(join(trained.folder, "metrics.jsonl"), "utf8").trimEnd().split("\n");
  const steps = lines.map((line) => JSON.parse(line) as Line);
  const ess = steps.flatMap(({ importance_ess: share }) => share ?? []);
  const phases: Record<string, number> = {};
  for (const { seconds } of steps) {
    for (const [phase, value] of Object.entries(seconds)) phases[phase] = (phases[phase] ?? 0) + value;
  }
  const store = RunStore.read(join(trained.folder, "run.sqlite"));
  const validations = store
    .validations()
    .map(({ step, result: { success, low, high, n: count } }) => ({ step, success, low, high, n: count }));
  store.close();
  const keep = ({ checkpoint, step, success, low, high, n: count, ...more }: Evaluated): Evaluated => {
    const { kinds, reward, turns, parts, ends, tool_errors } = more;
    return { checkpoint, step, success, low, high, n: count, kinds, reward, turns, parts, ends, tool_errors };
  };
  return round({
    name,
    kind,
    commands: commandsOf(experiment, n),
    seconds: phases.total ?? 0,
    mismatch: trained.mismatch,
    leastEss: ess.length === 0 ? null : Math.min(...ess),
    validations,
    training: steps.map(({ success }) => success),
    phases,
    heldOut: heldOut.columns.map(keep),
    heldOutPairs: heldOut.pairs,
    greedy: greedy.columns.map(keep),
    unseenNames: unseenNames.columns.map(keep),
    unseenNamesGreedy: unseenNamesGreedy.columns.map(keep),
  }) as Outcome;
}
