/** The sections of `yarn gpu-check`, most important first. Each takes at most eight minutes. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { LINEAR_LAYERS } from "../../src/core/learn/types.js";
import type { MetricsLine } from "../../src/core/run/records.js";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";
import { lanesOf, UBATCH } from "../../src/engine/contexts.js";
import { modelFile, modelShape } from "../../src/engine/models.js";
import { mismatchLimit } from "../../src/guards/mismatch.js";
import type { Check } from "../../src/hone/doctor/check.js";
import { planMemory, sumOf } from "../../src/machine/plan/memory.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { compareSides, type Side, type Size, sizes } from "../learner-update.js";
import { peakOnCard, processesWith, usedOnCard } from "./card.js";
import { benchContext, type CheckContext, gpuOption, type Section } from "./context.js";
import { contexts } from "./contexts.js";
import { hone, metricsOf, startHone } from "./programs.js";
import { shapedModel } from "./shapes.js";
import { speed } from "./speed.js";

/** Runs in a temporary folder. */
async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "hone-gpu-check-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export const doctor: Section = {
  name: "doctor",
  about: "what computes, and a small training step on the card",
  run: ({ gpu, save }) =>
    inFolder(async (folder) => {
      const { ok, checks } = await hone(folder, "doctor", "--gpu", gpuOption(gpu));
      save({ ok, checks });
      if (ok === true) return;
      const wrong = (checks as readonly Check[]).filter(({ state }) => state === "wrong").map(({ name }) => name);
      throw new HoneError(`doctor found to be mended: ${wrong.join(", ")}`);
    }),
};

export const parity: Section = {
  name: "parity",
  about: "log-probabilities of the card against those of the CPU, without and with an adapter",
  run: ({ gpu, small, log, save }) =>
    inFolder(async (folder) => {
      const { model, adapter } = await shapedModel(small ? "tiny" : "0.5b", log);
      const random = new Random("gpu-check");
      const ids = Array.from({ length: small ? 40 : 300 }, () => random.integer(0, 200));
      writeFileSync(join(folder, "ids.json"), JSON.stringify(ids));
      const score = async (on: string, more: string[]) => {
        const args = ["logprobs", "--model", model, "--tokens", "ids.json", "--gpu", on, ...more];
        return (await hone(folder, ...args)).logprobs as number[];
      };
      const rows: object[] = [];
      for (const [name, more] of [["without", []] as const, ["with", ["--adapter", adapter]] as const]) {
        const [card, cpu] = [await score(gpuOption(gpu), [...more]), await score("off", [...more])];
        const mismatches = card.map((value, i) => Math.abs(value - (cpu[i] as number)));
        const mean = mismatches.reduce((sum, mismatch) => sum + mismatch, 0) / mismatches.length;
        rows.push({ adapter: name, tokens: mismatches.length, mean, max: Math.max(...mismatches) });
        save({ rows });
      }
    }),
};

/** PyTorch cannot use a software GPU. */
export const learnerGpu = ({ gpu }: CheckContext) => (gpu === "cuda" ? gpu : false);

export function updateSize({ small }: CheckContext): Size {
  const [tiny, large] = sizes as readonly [Size, Size];
  return small
    ? { ...tiny, rollouts: { prompt: [20, 30], completion: [8, 12] }, repeats: 1 }
    : { ...large, rollouts: { prompt: [300, 600], completion: [100, 200] }, repeats: 3 };
}

const updates: Section = {
  name: "updates",
  about: "an update by PEFT and by Unsloth: tokens/s, peak, and how far their gradients are apart",
  async run(context) {
    const { log, save } = context;
    const python = await ensurePython({ extras: ["dev", "unsloth"], onProgress: log });
    const side = (name: Side[0]): Side => [name];
    const bench = benchContext(context, learnerGpu(context), 1);
    const rows = await compareSides(bench, python, updateSize(context), {
      name: "peft/unsloth",
      ours: side("hone"),
      theirs: side("hone-unsloth"),
      targets: { speed: "", memory: "" },
    });
    save({ rows });
  },
};

const MICRO_BATCH = 4096;

interface Training {
  readonly model: string;
  readonly concurrency: number;
  readonly context: number;
  /** The run's folder, inside the folder in which it is started. */
  readonly run: string;
  readonly args: readonly string[];
}

/**
 * A run with real updates whatever its model can do, by random rewards. The rehearsal uses the tests' task for a
 * software GPU, where each kernel takes long to compile.
 */
async function training({ gpu, small, log }: CheckContext): Promise<Training> {
  const [concurrency, context] = small ? [2, 64] : [32, 1024];
  const model = small ? "tiny" : (await shapedModel("0.5b", log)).model;
  const task = small ? ["--task", join(packageRoot, "test/train/support/vowels-on-gpu-task.ts")] : [];
  const patience = ["--turn-timeout", 900, "--rollout-timeout", 900];
  const size = small
    ? [
        "--groups-per-step",
        2,
        "--group-size",
        2,
        "--max-turns",
        2,
        "--max-tokens",
        9,
        "--temperature",
        2,
        "--validate-n",
        1,
      ]
    : ["--groups-per-step", 8, "--group-size", 4, "--max-turns", 2, "--max-tokens", 64, "--validate-n", 8];
  // The distance of engine and learner is a result here: however large it is, the steps are taken.
  const learner = [
    "--max-mismatch",
    100,
    "--micro-batch-tokens",
    MICRO_BATCH,
    "--lora-rank",
    16,
    "--control",
    "random-reward",
  ];
  const engine = ["--gpu", gpuOption(gpu), "--concurrency", concurrency, "--context", context];
  const args = ["train", "--model", model, "--run", "check", ...task, ...patience, ...size, ...learner, ...engine];
  const run = join(".hone", small ? "vowels" : "email", "models/check");
  return { model: modelFile(model), concurrency, context, run, args: args.map(String) };
}

const database = (folder: string, { small }: CheckContext) =>
  small ? Promise.resolve({}) : hone(folder, "build-db", "--mailboxes", "5");

export const steps: Section = {
  name: "steps",
  about: "three training steps: seconds, distance of engine and learner, memory, and what the plan said of it",
  run: (check) =>
    inFolder(async (folder) => {
      const { gpu, save } = check;
      const { model, concurrency, context, run, args } = await training(check);
      await database(folder, check);
      const before = usedOnCard();
      const { result, peak } = await peakOnCard(() => hone(folder, ...args, "--steps", "3"));
      const steps = metricsOf(join(folder, run));
      const { memory, mismatch } = steps.at(-1) as MetricsLine;
      const shape = await modelShape(model);
      const lanes = lanesOf(shape.bytes, gpu, 1, concurrency);
      const plan = planMemory({
        shape,
        concurrency,
        context,
        loraRank: 16,
        loraTargets: LINEAR_LAYERS,
        microBatchTokens: MICRO_BATCH,
        gradientCheckpointing: false,
        learnerLifetime: "run",
        releaseWeights: false,
        gpu,
        precision: "auto",
        hfWeights: false,
        learner: "auto",
        lanes,
        ubatch: UBATCH,
        sampling: "host",
        judge: null,
      });
      const place = gpu === "cuda" && plan.gpu ? plan.gpu : plan.host;
      const learner = sumOf(place.learning.filter(({ name }) => name.startsWith("learner")));
      save({
        run: result,
        // The shaped models are in f16.
        limit: mismatchLimit("F16"),
        steps: steps.map(({ step, seconds, tokens, sampled_tokens: sampled, mismatch: apart }) => ({
          step,
          seconds,
          tokens,
          sampled,
          mismatch: apart?.mean ?? null,
        })),
        mismatch,
        learner: { planned: learner, measured: memory?.peak ?? null },
        card: { planned: plan.gpu?.peak ?? null, measured: peak === null || before === null ? null : peak - before },
      });
    }),
};

/** Seconds in which the driver must have freed the memory of a killed process. */
const PATIENCE = 30;
/** Environment variable that marks all descendants of a process. */
const MARK = "GPU_CHECK_RUN";

const kill: Section = {
  name: "kill",
  about: "training is killed; then no process of it is left, and the card is as it was",
  run: (check) =>
    inFolder(async (folder) => {
      const { args } = await training(check);
      await database(folder, check);
      process.env[MARK] = folder;
      const left = () => processesWith(MARK, folder).length;
      const before = usedOnCard();
      const isAsBefore = () => before === null || (usedOnCard() ?? 0) <= before;
      const run = startHone(folder, ...args, "--steps", "50");
      // From here on engine and learner use the card.
      await run.prints(/^learner: /m);
      const [during, running] = [usedOnCard(), left()];
      await run.kill();
      const killed = performance.now();
      const since = () => (performance.now() - killed) / 1000;
      while ((left() > 0 || !isAsBefore()) && since() < PATIENCE) await sleep(100);
      const free = left() === 0 && isAsBefore();
      check.save({
        processes: { running, left: left() },
        card: { before, during, after: usedOnCard() },
        seconds_to_end: since(),
      });
      if (!free) throw new HoneError(`${PATIENCE} s after the kill something of the run is still there`);
    }),
};

export const sections: readonly Section[] = [
  doctor,
  parity,
  speed("0.5b"),
  contexts,
  steps,
  kill,
  updates,
  speed("1.5b"),
  speed("7b-8"),
];
