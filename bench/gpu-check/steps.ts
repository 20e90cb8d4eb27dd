/** Sections of `yarn gpu-check` that train: seconds of a step's stages, memory beside the plan, and what a kill leaves. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { LINEAR_LAYERS } from "../../src/core/learn/types.js";
import type { MetricsLine } from "../../src/core/run/records.js";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { lanesOf, UBATCH } from "../../src/engine/contexts.js";
import { modelFile, modelShape } from "../../src/engine/models.js";
import { mismatchLimit } from "../../src/guards/mismatch.js";
import { planMemory, sumOf } from "../../src/machine/plan/memory.js";
import { peakOnCard, processesWith, usedOnCard } from "./card.js";
import { type CheckContext, gpuOption, type Section } from "./context.js";
import { inFolder } from "./folder.js";
import { hone, metricsOf, startHone } from "./programs.js";
import { shapedModel } from "./shapes.js";

const MICRO_BATCH = 4096;
const STEPS = 3;

interface Memory {
  readonly planned: number | null;
  readonly measured: number | null;
}

/** Of a training of some steps. */
export interface Trained {
  readonly groups: number;
  readonly size: number;
  readonly steps: readonly {
    readonly step: number;
    /** By stage. */
    readonly seconds: Readonly<Record<string, number>>;
    readonly tokens: number;
    readonly sampled: number;
    /** Nats between engine and learner, on average. */
    readonly mismatch: number | null;
  }[];
  /** Nats up to which they count as one model. */
  readonly limit: number;
  readonly learner: Memory;
  readonly card: Memory;
}

interface Training {
  readonly model: string;
  readonly concurrency: number;
  readonly context: number;
  /** The run's folder, inside the folder in which it is started. */
  readonly run: string;
  readonly args: readonly string[];
}

/** Groups of a step, and rollouts of a group; a rehearsal has two of two. */
type Rollouts = readonly [groups: number, size: number];
const rolloutsOf = ({ small }: CheckContext, asked: Rollouts): Rollouts => (small ? [2, 2] : asked);

/**
 * A run with real updates whatever its model can do, by random rewards. The rehearsal uses the tests' task for a
 * software GPU, where each kernel takes long to compile.
 */
async function training(check: CheckContext, asked: Rollouts): Promise<Training> {
  const { gpu, small, log } = check;
  const [groups, size] = rolloutsOf(check, asked);
  const [concurrency, context] = small ? [2, 64] : [groups * size, 1024];
  const model = small ? "tiny" : (await shapedModel("0.5b", log)).model;
  const task = small ? ["--task", join(packageRoot, "test/train/support/vowels-on-gpu-task.ts")] : [];
  const patience = ["--turn-timeout", 900, "--rollout-timeout", 900];
  const turns = small
    ? ["--max-tokens", 9, "--temperature", 2, "--validate-n", 1]
    : ["--max-tokens", 64, "--validate-n", 8];
  const rollouts = ["--groups-per-step", groups, "--group-size", size, "--max-turns", 2, ...turns];
  // The distance of engine and learner is a result here: however large it is, the steps are taken.
  const learner = ["--max-mismatch", 100, "--micro-batch-tokens", MICRO_BATCH, "--lora-rank", 16];
  const control = ["--control", "random-reward"];
  const engine = ["--gpu", gpuOption(gpu), "--concurrency", concurrency, "--context", context];
  const args = ["train", "--model", model, "--run", "check", ...task, ...patience, ...rollouts, ...learner, ...control];
  const run = join(".hone", small ? "vowels" : "email", "models/check");
  return { model: modelFile(model), concurrency, context, run, args: [...args, ...engine].map(String) };
}

const database = (folder: string, { small }: CheckContext) =>
  small ? Promise.resolve({}) : hone(folder, "build-db", "--mailboxes", "5");

const LIFETIMES = {
  run: { learnerLifetime: "run", releaseWeights: false },
  offload: { learnerLifetime: "offload", releaseWeights: true },
} as const;

async function trained(
  check: CheckContext,
  asked: Rollouts,
  lifetime: keyof typeof LIFETIMES = "run",
): Promise<Trained> {
  return inFolder(async (folder) => {
    const { gpu } = check;
    const { model, concurrency, context, run, args } = await training(check, asked);
    await database(folder, check);
    const { learnerLifetime, releaseWeights } = LIFETIMES[lifetime];
    const more = ["--learner-lifetime", learnerLifetime, ...(releaseWeights ? ["--release-weights"] : [])];
    const before = usedOnCard();
    const { peak } = await peakOnCard(() => hone(folder, ...args, ...more, "--steps", String(STEPS)));
    const steps = metricsOf(join(folder, run));
    const { memory } = steps.at(-1) as MetricsLine;
    const shape = await modelShape(model);
    const plan = planMemory({
      shape,
      concurrency,
      context,
      loraRank: 16,
      loraTargets: LINEAR_LAYERS,
      microBatchTokens: MICRO_BATCH,
      gradientCheckpointing: false,
      learnerLifetime,
      releaseWeights,
      gpu,
      precision: "auto",
      hfWeights: false,
      learner: "auto",
      lanes: lanesOf(shape.bytes, gpu, 1, concurrency),
      ubatch: UBATCH,
      sampling: "host",
      judge: null,
    });
    const place = gpu === "cuda" && plan.gpu ? plan.gpu : plan.host;
    const [groups, size] = rolloutsOf(check, asked);
    return {
      groups,
      size,
      steps: steps.map(({ step, seconds, tokens, sampled_tokens: sampled, mismatch }) => ({
        step,
        seconds,
        tokens,
        sampled,
        mismatch: mismatch?.mean ?? null,
      })),
      // The shaped models are in f16.
      limit: mismatchLimit("F16"),
      learner: {
        planned: sumOf(place.learning.filter(({ name }) => name.startsWith("learner"))),
        measured: memory?.peak ?? null,
      },
      card: { planned: plan.gpu?.peak ?? null, measured: peak === null || before === null ? null : peak - before },
    };
  });
}

export const step = (...[groups, size]: Rollouts): Section => ({
  name: `step-${groups}x${size}`,
  about: `${STEPS} training steps of ${groups} groups of ${size}: seconds of each stage, distance of engine and learner, memory`,
  run: async (check) => check.save(await trained(check, [groups, size])),
});

export const memory: Section = {
  name: "memory",
  about: "a step of 8 groups of 4 beside hone's plan, with the learner on the card and with all of it offloaded",
  async run(check) {
    const rows: object[] = [];
    for (const lifetime of ["run", "offload"] as const) {
      rows.push({ ...LIFETIMES[lifetime], ...(await trained(check, [8, 4], lifetime)) });
      check.save({ rows });
    }
  },
};

/** Seconds in which the driver must have freed the memory of a killed process. */
const PATIENCE = 30;
/** Environment variable that marks all descendants of a process. */
const MARK = "GPU_CHECK_RUN";

export const kill: Section = {
  name: "kill",
  about: "training is killed; then no process of it is left, and the card is as it was",
  run: (check) =>
    inFolder(async (folder) => {
      const { args } = await training(check, [8, 4]);
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
