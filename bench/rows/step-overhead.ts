/**
 * Overhead of a training step: the share of its time outside rollouts, rewards and the learner's update. Two steps of
 * `yarn train` on the 0.5B shape, with few and short rollouts: the smaller the work, the larger the share.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MetricsLine } from "../../src/core/run/records.js";
import { HoneError } from "../../src/core/util/errors.js";
import { decodeThreads } from "../../src/engine/threads.js";
import { timeText } from "../../src/insight/report/train-view.js";
import { hone } from "../cli.js";
import { modelName } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, BenchContext, Row } from "../row.js";

const STEPS = 2;
/**
 * Rewards are random, since those of a model with random weights do not differ. With this seed they differ in every
 * group.
 */
const OPTIONS = {
  steps: STEPS,
  groupsPerStep: 2,
  groupSize: 4,
  "max-tokens": 24,
  "max-turns": 3,
  "validate-n": 1,
  "validate-every": 0,
  control: "random-reward",
  seed: 1,
};

export const bench: Bench = {
  name: "train/step-overhead",
  about: "share of a training step outside rollouts, rewards and the update",
  models: ["0.5b"],
  async run(context) {
    const model = context.model ?? modelPath("qwen2-0.5b-shape-f16.gguf");
    const home = mkdtempSync(join(tmpdir(), "hone-bench-"));
    try {
      const db = context.db ?? join(home, "mail.db");
      if (context.db === undefined) await hone(context, "build-db", "--db", db, "--mailboxes", "20");
      const flags = Object.entries(OPTIONS).flatMap(([name, value]) => [`--${name}`, String(value)]);
      // Fixed, so that the engine does not reduce its threads during a measurement.
      const threads = ["--threads", String(decodeThreads(context.threads))];
      await hone(
        context,
        "train",
        "--home",
        home,
        "--run",
        "bench",
        "--model",
        model,
        "--db",
        db,
        ...flags,
        ...threads,
      );
      const lines = readFileSync(join(home, "email/models/bench/metrics.jsonl"), "utf8").trimEnd().split("\n");
      return [
        rowOf(
          lines.map((line) => JSON.parse(line) as MetricsLine),
          model,
          context,
        ),
      ];
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  },
};

function rowOf(steps: readonly MetricsLine[], model: string, context: BenchContext): Row {
  const idle = steps.find(({ skipped }) => skipped !== null);
  if (idle) throw new HoneError(`step ${idle.step} changed nothing (${idle.skipped}): it is no measure of a step`);
  const sum = (pick: (step: MetricsLine) => number) => steps.reduce((total, step) => total + pick(step), 0);
  const second = (name: string) => sum(({ seconds }) => seconds[name] ?? 0);
  // Validations are not part of a step.
  const all = second("total") - second("validation");
  const outside = all - second("rollouts") - second("rewards") - second("update");
  const gigabytes = (bytes: number) => `${(bytes / 1e9).toFixed(1)} GB`;
  const memory = steps.flatMap(({ memory }) => memory ?? []);
  const peak = Math.max(...memory.map(({ peak }) => peak));
  const row: Row = {
    name: "train/step-overhead",
    model: modelName(model),
    sequences: OPTIONS.groupsPerStep * OPTIONS.groupSize,
    ours: outside / all,
    theirs: null,
    ratio: null,
    unit: "share",
    target: "<= 0.03",
    note: [
      context.db === undefined ? "synthetic mailbox" : modelName(context.db),
      ...steps.map(({ step, seconds, tokens }) => `step ${step}: ${tokens} tokens, ${timeText(seconds)}`),
      `learner at most ${gigabytes(peak)}`,
    ].join("; "),
  };
  context.log(`${row.name}: ${(100 * row.ours).toFixed(2)} % of a step (${row.note})`);
  return row;
}
