/**
 * Wall time of training steps that are played ahead of the update (--staleness 1), with the engine and the learner on a core each,
 * beside steps in turns on both cores and in turns on a core each. Runs of the tiny model alternate.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MetricsLine } from "../../src/core/run/records.js";
import { HoneError } from "../../src/core/util/errors.js";
import { modelFile } from "../../src/engine/models.js";
import { usableCores } from "../../src/engine/threads.js";
import { hone } from "../cli.js";
import { compare, modelName } from "../measure.js";
import type { Bench, BenchContext, Row } from "../row.js";

/** Steps that are counted: the first is played before there is an update to play beside, and nothing beside the last update. */
const COUNTED = { from: 3, to: 6 };
const OPTIONS = { steps: COUNTED.to + 1, "validate-n": 1, "validate-every": 0, seed: 1 };

/** Milliseconds of a step. */
async function stepTime(context: BenchContext, db: string, home: string, run: string, flags: readonly string[]) {
  const model = context.model ?? modelFile("tiny");
  const options = Object.entries(OPTIONS).flatMap(([name, value]) => [`--${name}`, String(value)]);
  await hone(context, "train", "--home", home, "--run", run, "--model", model, "--db", db, ...options, ...flags);
  const lines = readFileSync(join(home, "email/models", run, "metrics.jsonl"), "utf8")
    .trimEnd()
    .split("\n");
  const steps = lines
    .map((line) => JSON.parse(line) as MetricsLine)
    .filter(({ step }) => step >= COUNTED.from && step <= COUNTED.to);
  if (steps.some(({ skipped }) => skipped !== null)) throw new HoneError("a step changed nothing: it is no measure");
  const seconds = steps.reduce((sum, { seconds: { total = 0 } }) => sum + total, 0);
  return (1000 * seconds) / steps.length;
}

export const bench: Bench = {
  name: "train/step-ahead",
  about: "a step that is played ahead of the update, on a core each, against steps in turns",
  models: [],
  async run(context) {
    const cores = usableCores();
    if (cores < 2) throw new HoneError("train/step-ahead: needs two cores, one for each of engine and learner");
    const home = mkdtempSync(join(tmpdir(), "hone-bench-"));
    const db = context.db ?? join(home, "mail.db");
    let runs = 0;
    const time = (...flags: string[]) => stepTime(context, db, home, `run-${++runs}`, flags);
    const turns = [
      { name: "train/step-ahead", note: "on all cores", flags: ["--threads", String(cores)] },
      { name: "train/step-ahead/same-cores", note: "on one core each", flags: ["--threads", "1"] },
    ];
    try {
      if (context.db === undefined) await hone(context, "build-db", "--db", db, "--mailboxes", "20");
      const rows: Row[] = [];
      for (const { name, note, flags } of turns) {
        const row = {
          name,
          model: modelName(context.model ?? modelFile("tiny")),
          sequences: null,
          unit: "ms",
          target: "",
          note: `steps ${COUNTED.from} to ${COUNTED.to} of the default size; ours: --staleness 1, engine on one core and learner on ${cores - 1}; theirs: in turns, ${note}`,
        } as const;
        const sides = { ours: () => time("--staleness", "1", "--threads", "1"), theirs: () => time(...flags) };
        rows.push(await compare(context, row, "less", sides));
      }
      return rows;
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  },
};
