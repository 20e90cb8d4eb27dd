/**
 * The arithmetic of `yarn hone plan` beside measured steps on this CPU, whose rates are measured first. The plan is told the
 * lengths that the rollouts had; every group is trained, by random rewards.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { downloadOptions, withDefaults } from "../../src/config/index.js";
import { modelFile, modelShape, usableCores } from "../../src/engine/index.js";
import { LINEAR_LAYERS } from "../../src/learn/index.js";
import { resolveModel } from "../../src/models/index.js";
import { planStep } from "../../src/plan/step-plan.js";
import { ensurePython } from "../../src/python-env/index.js";
import type { MetricsLine } from "../../src/run/records.js";
import { RunStore } from "../../src/run/store.js";
import { HoneError } from "../../src/util/errors.js";
import { packageRoot } from "../../src/util/paths.js";
import { hone } from "../cli.js";
import { runMeasured } from "../process.js";
import { productRate, readRate } from "../rates.js";
import type { Bench, Row } from "../row.js";

/** The first loads and compiles, and is left out; of the others the fastest counts, as of the rates: other programs disturb it least. */
const STEPS = 4;

interface Case {
  readonly title: string;
  readonly flags: readonly string[];
  /** The GGUF file that it plays. */
  file(home: string): Promise<string>;
}

const tiny: Case = { title: "tiny", flags: ["--model", "tiny"], file: async () => modelFile("tiny") };
const smollm2: Case = {
  title: "SmolLM2-135M f16",
  flags: ["--model", "smollm2-135m-q4_1", "--weights", "f16", "--max-tokens", "12"],
  file: (home) =>
    resolveModel("smollm2-135m-q4_1", withDefaults(["weights", "home", ...downloadOptions], { weights: "f16", home }), {
      log: () => undefined,
      update: () => undefined,
    }),
};

export const bench: Bench = {
  name: "plan/step",
  about: "seconds of a step as `yarn hone plan` has them from this CPU's rates, over those measured: tiny, SmolLM2",
  models: [],
  async run(context) {
    const python = await ensurePython({ anyBuild: true, onProgress: context.log });
    const threads = context.threads ?? usableCores();
    const home = mkdtempSync(join(tmpdir(), "hone-bench-"));
    try {
      let rates = ratesOf(python, threads);
      const db = context.db ?? join(home, "mail.db");
      if (context.db === undefined) await hone(context, "build-db", "--db", db, "--mailboxes", "20");
      const task = join(packageRoot, "examples/what-kind.ts");
      const rows: Row[] = [];
      for (const [one, given] of [[tiny, ["--db", db]] as const, [smollm2, ["--task", task]] as const]) {
        const measured = await trained(one, given, home, threads);
        rates = faster(rates, ratesOf(python, threads));
        rows.push(...(await beside(one, measured, home, threads, rates)));
      }
      context.log(`this CPU: --assume cpu-bandwidth=${rates.bandwidth} --assume cpu-products=${rates.products}`);
      return rows;
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  },
};

interface Rates {
  readonly bandwidth: number;
  readonly products: number;
}

const ratesOf = (python: string, threads: number): Rates => ({
  bandwidth: readRate(python, threads),
  products: productRate(python, threads),
});

const faster = (a: Rates, b: Rates): Rates => ({
  bandwidth: Math.max(a.bandwidth, b.bandwidth),
  products: Math.max(a.products, b.products),
});

/** Seconds of a step's phases, and the lengths of its rollouts. */
interface Measured {
  readonly rollouts: number;
  readonly update: number;
  readonly total: number;
  readonly lengths: Lengths;
}

interface Lengths {
  readonly prompt: number;
  readonly turns: number;
  readonly turnTokens: number;
  readonly resultTokens: number;
}

async function beside(one: Case, measured: Measured, home: string, threads: number, rates: Rates): Promise<Row[]> {
  const { lengths } = measured;
  const shape = await modelShape(await one.file(home));
  const { best, work } = planStep(shape, {
    cards: "cpu",
    assume: { "cpu-bandwidth": rates.bandwidth, "cpu-products": rates.products },
    promptTokens: lengths.prompt,
    turns: lengths.turns,
    turnTokens: lengths.turnTokens,
    resultTokens: lengths.resultTokens,
    loraTargets: LINEAR_LAYERS,
    judgeSeconds: 0,
    engineMemory: 0.5,
  });
  if (!best) throw new HoneError(`${one.title} does not fit here, and was trained`);
  const sum = (start: string) =>
    best.parts.filter(({ name }) => name.startsWith(start)).reduce((total, { seconds }) => total + seconds, 0);
  const note = [
    `planned beside measured; ${work.groups} × ${work.groupSize} rollouts: prompt ${lengths.prompt.toFixed(0)}`,
    `${lengths.turns.toFixed(2)} turns of ${lengths.turnTokens.toFixed(1)}, results of ${lengths.resultTokens.toFixed(0)} tokens`,
    `memory ${(rates.bandwidth / 1e9).toFixed(1)} GB/s, products ${(rates.products / 1e9).toFixed(0)} GFLOP/s`,
  ].join("; ");
  const row = (part: string, seconds: number, planned: number): Row => ({
    ...{ name: `plan/step ${part}`, model: one.title, sequences: null, unit: "ms", target: "", note, threads },
    ...{ ours: 1000 * seconds, theirs: 1000 * planned, ratio: planned / seconds },
  });
  return [
    row("rollouts", measured.rollouts, sum("rollouts")),
    row("update", measured.update, sum("update")),
    row("total", measured.total, best.seconds),
  ];
}

async function trained(
  { title, flags }: Case,
  task: readonly string[],
  home: string,
  threads: number,
): Promise<Measured> {
  const cli = join(packageRoot, "dist/src/cli.js");
  const { line } = await runMeasured(process.execPath, [
    ...[cli, "train", "--json", "--home", home, "--run", title.replace(/\W/g, "-"), "--gpu", "off"],
    ...[...flags, ...task, "--control", "random-reward", "--seed", "1", "--threads", `${threads}`],
    ...["--steps", `${STEPS}`, "--validate-every", "0", "--validate-n", "1"],
  ]);
  const { folder } = JSON.parse(line) as { folder: string };
  const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8").trimEnd().split("\n");
  const steps = lines.map((each) => JSON.parse(each) as MetricsLine).filter(({ step }) => step > 1);
  const idle = steps.find(({ skipped }) => skipped !== null);
  if (idle) throw new HoneError(`step ${idle.step} changed nothing (${idle.skipped}): it is no measure of a step`);
  const of = (phase: string) => Math.min(...steps.map(({ seconds }) => seconds[phase] ?? 0));
  const total = Math.min(...steps.map(({ seconds }) => (seconds.total ?? 0) - (seconds.validation ?? 0)));
  const store = RunStore.read(join(folder, "run.sqlite"));
  try {
    const lengths = lengthsOf(
      store,
      steps.map(({ step }) => step),
    );
    return { rollouts: of("rollouts"), update: of("update"), total, lengths };
  } finally {
    store.close();
  }
}

function lengthsOf(store: RunStore, steps: readonly number[]): Lengths {
  const rollouts = steps.flatMap((step) => store.rollouts("train", step)).filter(({ tokens }) => tokens !== undefined);
  const mean = (of: (one: (typeof rollouts)[number]) => number) =>
    rollouts.reduce((total, one) => total + of(one), 0) / rollouts.length;
  const turns = mean((one) => one.turns);
  const prompt = mean(({ tokens }) => tokens?.sampled.indexOf(1) ?? 0);
  const sampled = mean(({ tokens }) => tokens?.sampled.filter(Boolean).length ?? 0);
  const length = mean(({ tokens }) => tokens?.ids.length ?? 0);
  const resultTokens = turns > 1 ? (length - prompt - sampled) / (turns - 1) : 0;
  return { prompt, turns, turnTokens: sampled / turns, resultTokens };
}
