/** `yarn train` without its words: finds or begins the run, brings up engine and learner, and goes through the loop. */
import { join } from "node:path";
import type { Config, GivenOptions, OptionName } from "../config.js";
import { type EngineOptions, gpuMemory, loadEngine, modelFile, modelShape } from "../engine/index.js";
import { ensurePython, startLearner } from "../learn/index.js";
import type { Share } from "../report/train-view.js";
import { type RolloutLimits, templateOf } from "../rollout/index.js";
import { loadTask } from "../task/load.js";
import { deriveSeed } from "../util/random.js";
import { EnginePolicy } from "./engine-policy.js";
import { fitToMachine } from "./fit.js";
import { gapLimit } from "./guards.js";
import { randomReward, taskReward } from "./lessons.js";
import { train } from "./loop.js";
import { mainMemory } from "./machine.js";
import type { View } from "./parts.js";
import { modelFingerprint, modelOf, placeOf, withAbsolutePaths } from "./place.js";
import { bestOf, Run, STORE_FILE } from "./run.js";
import { ScenarioCursor, scenariosFingerprint } from "./scenarios.js";
import { checkSameRun, type RunSettings, resolveSettings } from "./settings.js";
import { RunStore, type ValidationRow } from "./store.js";
import { LearnerUpdater } from "./updater.js";

/** Options that a player of the email task and of others is told by. */
const playing = [
  "turnTimeout",
  "toolTimeout",
  "rolloutTimeout",
  "maxExceptions",
  "concurrency",
  "workers",
  "gpu",
  "threads",
] as const satisfies readonly OptionName[];

export const trainOptions = [
  "model",
  "task",
  "db",
  "home",
  "project",
  "run",
  "fork",
  "preset",
  "steps",
  "groups",
  "group",
  "learningRate",
  "finalLearningRate",
  "warmup",
  "loraRank",
  "loraAlpha",
  "loraTargets",
  "loss",
  "clipLow",
  "clipHigh",
  "kl",
  "maxGradNorm",
  "reward",
  "control",
  "validateEvery",
  "validateN",
  "keep",
  "seed",
  "temperature",
  "topK",
  "topP",
  "minP",
  "context",
  "maxTurns",
  "maxTokens",
  "onToolError",
  "rank",
  ...playing,
  "learner",
  "learnerLifetime",
  "python",
  "hfWeights",
  "precision",
  "microBatchTokens",
  "gradientCheckpointing",
  "releaseWeights",
  "maxGap",
] as const satisfies readonly OptionName[];

export type TrainConfig = Pick<Config, (typeof trainOptions)[number]>;

export interface TrainIo {
  readonly signal: AbortSignal;
  readonly say: (text: string) => void;
  /** Whoever watches, once it is known how many steps there will be. */
  readonly watch: (steps: number) => View;
}

export interface TrainSummary {
  run: string;
  folder: string;
  /** Committed, over all calls. */
  steps: number;
  /** Of this call. */
  seconds: number;
  /** Success on the validation scenarios at the start and after the last step. */
  before: Share | null;
  after: Share | null;
  best: { step: number; success: number } | null;
  /** Over all updates: mean of their means, highest p99, highest max. null without updates. */
  gap: { mean: number; p99: number; max: number } | null;
  /** The best adapter; null when it is the base model. */
  adapter: string | null;
}

/** Rollouts at once when nobody says. */
const CONCURRENCY = { cpu: 16, gpu: 64 };
/** Upper bound of the weight that corrects for the engine's rounding. */
const MISMATCH_CLIP = 2;

export function limitsOf(settings: RunSettings, config: Pick<Config, (typeof playing)[number]>): RolloutLimits {
  return {
    maxTurns: settings.maxTurns,
    maxTokens: settings.maxTokens,
    turnSeconds: config.turnTimeout,
    toolSeconds: config.toolTimeout,
    rolloutSeconds: config.rolloutTimeout,
    onToolError: settings.onToolError,
  };
}

/** What is known before anything is loaded. */
async function prepare(config: TrainConfig, asGiven: GivenOptions, say: (text: string) => void) {
  const folder = await placeOf(config);
  const recorded = RunStore.recordIn(join(folder, STORE_FILE));
  const given = withAbsolutePaths(asGiven);
  const reference = modelOf(given, recorded?.options.model);
  const model = modelFile(reference);
  const shape = await modelShape(model);

  const chosen = <K extends "task" | "db" | "rank">(name: K) =>
    (given[name] ?? recorded?.options[name] ?? config[name]) as Config[K];
  const taskReference = chosen("task");
  const task = await loadTask(taskReference);
  const taskOptions = { home: config.home, db: chosen("db"), rank: chosen("rank") };
  const all = await task.scenarios(taskOptions);
  const settings = resolveSettings({
    given,
    recorded,
    model: { reference, ...shape },
    stepsPerEpoch: (groups) => new ScenarioCursor(all, { groups, seed: 0 }).stepsPerEpoch,
  });
  const scenarios = new ScenarioCursor(all, settings);

  const gpu = await gpuMemory(config.gpu === "off" ? false : config.gpu);
  const most = Math.min(settings.groups * settings.group, gpu ? CONCURRENCY.gpu : CONCURRENCY.cpu);
  const fitted = fitToMachine(
    {
      shape,
      concurrency: config.concurrency ?? most,
      context: settings.context,
      loraRank: settings.loraRank,
      loraTargets: settings.loraTargets,
      microBatchTokens: settings.microBatchTokens,
      gradientCheckpointing: config.gradientCheckpointing ?? false,
      learnerLifetime: config.learnerLifetime,
      releaseWeights: config.releaseWeights,
      gpu: gpu !== null,
    },
    {
      concurrency: config.concurrency === undefined,
      gradientCheckpointing: config.gradientCheckpointing === undefined,
    },
    gpu ? { total: gpu.total, available: gpu.free } : mainMemory(),
    gpu?.name ?? "this machine",
    say,
  );
  const contents = { model: modelFingerprint(model), task: task.name, scenarios: scenariosFingerprint(all) };
  const play = { task: taskReference, taskOptions };
  return { folder, model, shape, settings, scenarios, fitted, contents, play };
}

type Prepared = Awaited<ReturnType<typeof prepare>>;

/** @throws HoneError when the run cannot go on; what it has done is kept */
export async function runTraining(config: TrainConfig, given: GivenOptions, io: TrainIo): Promise<TrainSummary> {
  const started = performance.now();
  const prepared = await prepare(config, given, io.say);
  const { folder, settings, contents } = prepared;
  const python = await ensurePython({
    onProgress: io.say,
    ...(config.python === undefined ? {} : { python: config.python }),
  });
  const { loraRank: rank, loraAlpha: alpha, loraTargets: targets } = settings;
  const run = await Run.open({
    folder,
    record: { options: { ...settings }, contents },
    shape: { model: contents.model, lora: { rank, alpha, targets } },
    fork: config.fork,
    agree: (recorded) => checkSameRun(recorded, settings, contents, folder),
  });
  try {
    const { previousOwner: owner } = run;
    const at = run.store.lastStep().step;
    if (owner) io.say(`process ${owner.pid}, which trained this run since ${owner.since}, was ended from outside`);
    if (at > 0) io.say(`${run.folder}: going on after step ${at} of ${settings.steps}`);
    await trainWith(run, prepared, config, python, io);
    return summarise(run, (performance.now() - started) / 1000);
  } finally {
    run.close();
  }
}

async function trainWith(
  run: Run,
  { model, shape, settings, scenarios, fitted, play }: Prepared,
  config: TrainConfig,
  python: string,
  { signal, say, watch }: TrainIo,
): Promise<void> {
  const engineOptions: EngineOptions = {
    model,
    gpu: config.gpu === "off" ? false : config.gpu,
    sequences: fitted.concurrency,
    contextPerSequence: settings.context,
    ...(config.threads === undefined ? {} : { threads: config.threads }),
  };
  const engine = await loadEngine(engineOptions);
  const { maxGap = gapLimit(shape.weightType), hfWeights } = config;
  const { loraRank: rank, loraAlpha: alpha, loraTargets: targets, betas, weightDecay } = settings;
  const updater = new LearnerUpdater({
    lifetime: config.learnerLifetime,
    step: {
      loss: settings.loss,
      clipLow: settings.clipLow,
      clipHigh: settings.clipHigh,
      klCoefficient: settings.kl,
      mismatchClip: MISMATCH_CLIP,
      maxGradNorm: settings.maxGradNorm,
      microBatchTokens: fitted.microBatchTokens,
      gradientCheckpointing: fitted.gradientCheckpointing,
      maxCompletionTokens: settings.maxTokens * settings.maxTurns,
    },
    start: (from) =>
      startLearner({
        python,
        backend: config.learner,
        base: { gguf: model, ...(hfWeights === undefined ? {} : { hf: hfWeights }) },
        lora: { rank, alpha, targets },
        seed: deriveSeed("learner", settings.seed),
        optimizer: { betas, weightDecay },
        threads: engine.info.threads,
        device: engine.info.gpu === false ? "cpu" : "auto",
        precision: config.precision,
        logFile: run.logFile("learner.log"),
        ...(from === undefined ? {} : { resume: from }),
      }),
    say,
  });
  try {
    // A model that cannot play is told before the learner is loaded.
    templateOf(engine);
    const policy = new EnginePolicy(engine, {
      ...play,
      engine: engineOptions,
      limits: limitsOf(settings, config),
      temperature: settings.temperature,
      concurrency: fitted.concurrency,
      workers: config.workers,
      maxExceptions: config.maxExceptions,
      releaseWeights: config.releaseWeights,
      onFailure: ({ id, error }) => say(`rollout ${id} failed: ${error}`),
    });
    await train({
      run,
      settings: {
        ...settings,
        schedule: settings,
        // dr-grpo takes the division out of the advantages too.
        advantages: { stdScaling: settings.loss === "grpo", stdFloor: settings.stdFloor, spreadFloor: 0 },
        maxGap,
      },
      scenarios,
      policy,
      updater,
      rewardGroup: settings.control === "random-reward" ? randomReward(settings.seed) : taskReward,
      view: watch(settings.steps),
      signal,
    });
  } finally {
    await updater.close();
    await engine.close();
  }
}

function shareOf(row: ValidationRow | undefined): Share | null {
  if (!row) return null;
  const { success, n, low, high } = row.result;
  return { success, n, low, high };
}

function summarise(run: Run, seconds: number): TrainSummary {
  const validations = run.store.validations();
  const last = run.store.lastStep();
  const best = bestOf(validations);
  const gaps = run.store.steps().flatMap(({ metrics }) => metrics?.gap ?? []);
  return {
    run: run.name,
    folder: run.folder,
    steps: last.step,
    seconds,
    before: shareOf(validations.find(({ step }) => step === 0)),
    after: shareOf(validations.find(({ step }) => step === last.step)),
    best: best ? { step: best.step, success: best.result.success } : null,
    gap:
      gaps.length === 0
        ? null
        : {
            mean: gaps.reduce((sum, gap) => sum + gap.mean, 0) / gaps.length,
            p99: Math.max(...gaps.map((gap) => gap.p99)),
            max: Math.max(...gaps.map((gap) => gap.max)),
          },
    adapter: typeof best?.checkpoint === "number" ? run.checkpoints.adapterOf(best.checkpoint) : null,
  };
}
