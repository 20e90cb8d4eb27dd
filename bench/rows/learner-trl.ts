/**
 * One update of 64 rollouts in 8 groups: hone's learner against TRL's GRPOTrainer on the same tensors, model, adapter and
 * threads. Each side is a process of its own (bench/learner/update.py); that both did the same update is checked. The
 * rollouts are random tokens after a common prompt, or those of the first step of `yarn train --model tiny`, which have
 * much more in common.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { usableCores } from "../../src/engine/threads.js";
import { ensurePython } from "../../src/learn/index.js";
import { HoneError } from "../../src/util/errors.js";
import { packageRoot } from "../../src/util/paths.js";
import { hone } from "../cli.js";
import { compare, median } from "../measure.js";
import type { Bench, BenchContext, Row } from "../row.js";

const reportSchema = z.object({
  loss: z.number(),
  gradNorm: z.number(),
  tokens: z.number(),
  /** Positions that the model computed. */
  computed: z.number(),
  tokensPerSecond: z.number(),
  /** Highest resident bytes of the process during the update, less those of the loaded model. */
  aboveModel: z.number(),
});
type Report = z.output<typeof reportSchema>;

interface Size {
  readonly shape: "tiny" | "0.5b";
  /** Lengths of random rollouts. */
  readonly random?: { readonly prompt: readonly [number, number]; readonly completion: readonly [number, number] };
  /** Updates a process does; the fastest counts. */
  readonly repeats: number;
}

// On a CPU an update of long rollouts of the larger shape would take the better part of an hour.
const sizes: readonly Size[] = [
  { shape: "tiny", repeats: 3 },
  { shape: "tiny", random: { prompt: [300, 600], completion: [100, 200] }, repeats: 3 },
  { shape: "0.5b", random: { prompt: [40, 56], completion: [28, 36] }, repeats: 1 },
];

/** Relative differences of one update computed in two ways in f32. */
const SAME = { loss: 1e-4, gradNorm: 1e-3 };

export const bench: Bench = {
  name: "learner/trl",
  about: "an update of 64 rollouts: tokens per second and memory above the model, over TRL's GRPOTrainer",
  models: [],
  async run(context) {
    const python = await ensurePython({ development: true, onProgress: context.say });
    const rows: Row[] = [];
    const home = mkdtempSync(join(tmpdir(), "hone-bench-"));
    try {
      const batch = await playedBatch(context, python, home);
      for (const size of sizes) rows.push(...(await compareSides(context, python, size, batch)));
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
    return rows;
  },
};

/** The batch of the tiny model's first step, with default settings. */
async function playedBatch(context: BenchContext, python: string, home: string): Promise<string> {
  const places = ["--home", home, "--db", join(home, "mail.db")];
  await hone(context, "build-db", ...places);
  const run = ["--run", "bench", "--steps", "1", "--validate-n", "1", "--gpu", "off", "--python", python];
  await hone(context, "train", "--model", "tiny", ...places, ...run);
  return join(home, "email/models/bench/batch.safetensors");
}

async function compareSides(context: BenchContext, python: string, size: Size, batch: string): Promise<Row[]> {
  const threads = context.threads ?? usableCores();
  const reports: Record<"hone" | "trl", Report[]> = { hone: [], trl: [] };
  const side = (name: "hone" | "trl") => async () => {
    const report = await update(python, name, size, batch, threads);
    reports[name].push(report);
    return report.tokensPerSecond;
  };
  const { prompt, completion } = size.random ?? {};
  const lengths = size.random
    ? `prompts of ${prompt?.join(" to ")} tokens that 8 rollouts share, own parts of ${completion?.join(" to ")}`
    : "the rollouts of the tiny model's first step on the email task";
  const name = size.random ? "learner/trl" : "learner/trl/played";
  const about = { model: `qwen2 ${size.shape} shape, f32, LoRA rank 8 on all linear layers`, sequences: null };
  const speed = await compare(
    context,
    {
      ...about,
      name: `${name} speed`,
      unit: "tokens/s",
      target: size.random ? "ratio >= 1.5" : "ratio >= 5",
      note: `${lengths}; ${threads} threads`,
    },
    "more",
    { ours: side("hone"), theirs: side("trl") },
  );
  const [ours, theirs] = [reports.hone, reports.trl];
  checkSame(ours[0] as Report, theirs[0] as Report, size.shape);
  const bytes = (all: readonly Report[]) => median(all.map(({ aboveModel }) => aboveModel / 1e6));
  const memory: Row = {
    ...about,
    name: `${name} memory`,
    unit: "MB",
    ours: bytes(ours),
    theirs: bytes(theirs),
    ratio: bytes(theirs) / bytes(ours),
    target: "ratio >= 1.43",
    note: `peak of the process above the loaded model; positions computed: ${ours[0]?.computed} and ${theirs[0]?.computed}`,
    rounds: ours.map(({ aboveModel }, i) => ({ ours: aboveModel / 1e6, theirs: (theirs[i]?.aboveModel ?? 0) / 1e6 })),
  };
  return [speed, memory];
}

function checkSame(ours: Report, theirs: Report, shape: string): void {
  for (const key of ["loss", "gradNorm"] as const) {
    const difference = Math.abs(ours[key] - theirs[key]) / Math.abs(theirs[key]);
    if (difference > SAME[key]) {
      throw new HoneError(
        `on the ${shape} shape the two sides did different updates: ${key} ${ours[key]} and ${theirs[key]}`,
      );
    }
  }
}

/** One process, one or more updates. */
function update(python: string, side: "hone" | "trl", size: Size, batch: string, threads: number): Promise<Report> {
  const args = ["--shape", size.shape, "--threads", threads, "--repeats", size.repeats];
  if (size.random) args.push("--prompt", ...size.random.prompt, "--completion", ...size.random.completion);
  else args.push("--batch", batch);
  return new Promise((resolve, reject) => {
    const child = spawn(python, [join(packageRoot, "bench/learner/update.py"), side, ...args.map(String)], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const output = { stdout: "", stderr: "" };
    for (const stream of ["stdout", "stderr"] as const) {
      child[stream].setEncoding("utf8").on("data", (text: string) => {
        output[stream] += text;
      });
    }
    child.once("error", reject);
    child.once("close", (code) => {
      const line = output.stdout.trimEnd().split("\n").at(-1) ?? "";
      if (code === 0) resolve(reportSchema.parse(JSON.parse(line)));
      else
        reject(new HoneError(`bench/learner/update.py ${side} failed: ${output.stderr.trimEnd().split("\n").at(-1)}`));
    });
  });
}
