/**
 * Steps of SmolLM2's run in README by the type of its weights: the quantised files as they are, against f16. A step's
 * seconds are those of its rollouts and its update; memory is that of all of hone's processes.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MetricsLine } from "../../src/core/run/records.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { decodeThreads } from "../../src/engine/threads.js";
import { ensureQuantised, quantisedFile, quantisedTypes } from "../learning/quantised.js";
import { compare, median } from "../measure.js";
import { runMeasured } from "../process.js";
import type { Bench, BenchContext, Row } from "../row.js";

const STEPS = 2;
const MODEL = "smollm2-135m-q4_1";

interface Weights {
  readonly name: string;
  readonly flags: readonly string[];
}

const f16: Weights = { name: "f16", flags: ["--model", MODEL, "--weights", "f16"] };
const others: readonly Weights[] = [
  { name: "q4_1", flags: ["--model", MODEL] },
  ...quantisedTypes.map((type) => ({ name: type, flags: ["--model", quantisedFile(type)] })),
];

interface Measured {
  /** Median seconds of a step's rollouts, and of its update. */
  readonly rollouts: number;
  readonly update: number;
  /** In bytes. */
  readonly peak: number;
}

export const bench: Bench = {
  name: "train/weights",
  about: "a training step of SmolLM2 by the type of its weights: rollouts, update and memory, over f16",
  models: [],
  async run(context) {
    for (const type of quantisedTypes) await ensureQuantised(type, context.log);
    const home = mkdtempSync(join(tmpdir(), "hone-bench-"));
    const rows: Row[] = [];
    try {
      for (const weights of others) rows.push(...(await beside(context, weights, home)));
      return rows;
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  },
};

async function beside(context: BenchContext, weights: Weights, home: string): Promise<Row[]> {
  const sides: Record<"ours" | "theirs", Measured[]> = { ours: [], theirs: [] };
  const side = (which: "ours" | "theirs", one: Weights) => async () => {
    const run = `${one.name}-${weights.name}-${sides[which].length}`;
    const measured = await trained(context, one, home, run);
    sides[which].push(measured);
    return 1000 * (measured.rollouts + measured.update);
  };
  const about = { model: `SmolLM2-135M ${weights.name}`, sequences: null, target: "" };
  const step = await compare(
    context,
    { ...about, name: "train/weights step", unit: "ms", note: `${STEPS} steps of examples/what-kind.ts, beside f16` },
    "less",
    { ours: side("ours", weights), theirs: side("theirs", f16) },
  );
  const row = (name: string, unit: Row["unit"], of: (one: Measured) => number): Row => {
    const [ours, theirs] = [median(sides.ours.map(of)), median(sides.theirs.map(of))];
    return { ...about, name: `train/weights ${name}`, unit, ours, theirs, ratio: theirs / ours };
  };
  return [
    step,
    row("rollouts", "ms", (one) => 1000 * one.rollouts),
    row("update", "ms", (one) => 1000 * one.update),
    row("memory", "MB", (one) => one.peak / 1e6),
  ];
}

async function trained(context: BenchContext, { flags }: Weights, home: string, run: string): Promise<Measured> {
  const places = ["--home", home, "--run", run, "--gpu", "off", "--threads", `${decodeThreads(context.threads)}`];
  const task = ["--task", join(packageRoot, "examples/what-kind.ts"), "--max-tokens", "12", "--learning-rate", "5e-4"];
  const length = ["--steps", `${STEPS}`, "--validate-every", "0", "--validate-n", "1"];
  const cli = join(packageRoot, "dist/src/cli.js");
  const { line, peak } = await runMeasured(process.execPath, [
    cli,
    "train",
    "--json",
    ...task,
    ...flags,
    ...places,
    ...length,
  ]);
  const { folder } = JSON.parse(line) as { folder: string };
  const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8").trimEnd().split("\n");
  const seconds = lines.map((each) => (JSON.parse(each) as MetricsLine).seconds);
  const of = (phase: string) => median(seconds.map((one) => one[phase] ?? 0));
  return { rollouts: of("rollouts"), update: of("update"), peak };
}
