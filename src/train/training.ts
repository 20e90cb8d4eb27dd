/** The work of `yarn train` without its output: opens the run, starts engine and learner, and runs the loop. */
import type { GivenOptions } from "../config/index.js";
import { decodeThreads, type Engine, engineOptions, usableCores } from "../engine/index.js";
import type { JudgeUsage } from "../judge/index.js";
import { ensurePython, ensureTrackers, pythonFor } from "../learn/index.js";
import { loadFitting } from "../play/index.js";
import { type DifficultyCount, difficultyOf, engineFacts, engineText, type Share } from "../report/index.js";
import { openRewards, pushesOther } from "../reward/index.js";
import { chatOf, chatSettings, requireFormat } from "../rollout/index.js";
import { beginRun, bestOf, logEngine, type Run, type ValidationRow } from "../run/index.js";
import { readTrackers } from "../track/index.js";
import { withinDifficulty } from "./difficulty/index.js";
import { EnginePolicy } from "./engine-policy.js";
import { firstCheckpoint } from "./init-adapter.js";
import { train } from "./loop.js";
import type { View } from "./parts.js";
import { limitsOf, type Prepared, prepare, type TrainConfig } from "./prepare.js";
import { loopSettings } from "./settings.js";
import { endTracking, tracked, trackingOf } from "./tracked.js";
import { openUpdater } from "./updater.js";

export interface TrainIo {
  readonly signal: AbortSignal;
  readonly log: (text: string) => void;
  /**
   * Creates the view, once the number of steps is known, and whether another reward than the task's own
   * trains.
   */
  readonly watch: (steps: number, judged: boolean) => View;
  /** Whether `say` may use colours. */
  readonly colours: boolean;
}

export interface TrainSummary {
  run: string;
  folder: string;
  /** Committed steps, over all calls. */
  steps: number;
  /** Steps of this call. */
  seconds: number;
  /** How hard the scenarios were before training; null without --difficulty. */
  difficulty: DifficultyCount | null;
  /** Success on the validation scenarios at the start and after the last step. */
  before: Share | null;
  after: Share | null;
  best: { step: number; success: number } | null;
  /** Over all updates: mean of their means, highest p99, highest max. null without updates. */
  mismatch: { mean: number; p99: number; max: number } | null;
  /** Cost of judging over all calls; null without a judge. */
  judge: JudgeUsage | null;
  /** The best adapter; null when it is the base model. */
  adapter: string | null;
}

/** @throws HoneError when the run cannot continue; finished steps are kept */
export async function runTraining(config: TrainConfig, given: GivenOptions, io: TrainIo): Promise<TrainSummary> {
  const started = performance.now();
  const trackers = readTrackers(config.track);
  const prepared = await prepare(config, given, io.log, io.signal);
  const { folder, settings, contents, backend } = prepared;
  const python = await ensurePython(pythonFor(config, backend === "cuda", io.log));
  await ensureTrackers(python, trackers, { given: config.python !== undefined, onProgress: io.log });
  const first = await firstCheckpoint(prepared, config, io);
  const run = await beginRun({ folder, settings, contents, task: prepared.task, fork: config.fork ?? first });
  try {
    const { previousOwner: owner } = run;
    const at = run.store.lastStep().step;
    if (owner) io.log(`process ${owner.pid}, which trained this run since ${owner.since}, was ended from outside`);
    if (run.begunAnew) io.log(`${run.folder}: had no step yet, and begins anew with these options`);
    if (at > 0) io.log(`${run.folder}: going on after step ${at} of ${settings.steps}`);
    const tracking = trackingOf(trackers, run, settings, python, io.log);
    try {
      const watch: TrainIo["watch"] = (...about) => tracked(io.watch(...about), tracking);
      await trainWith(run, prepared, config, python, { ...io, watch });
    } finally {
      await endTracking(tracking, run, settings.steps);
    }
    return summarise(run, (performance.now() - started) / 1000);
  } finally {
    run.close();
  }
}

async function trainWith(
  run: Run,
  { model, task, settings, scenarios, backend, fitted, play }: Prepared,
  config: TrainConfig,
  python: string,
  { signal, log, watch, colours }: TrainIo,
): Promise<void> {
  const { taskOptions } = play;
  const rewards = await openRewards({ settings, config, task, taskOptions, store: run.store, signal, log, colours });
  const wanted = engineOptions(config, {
    model,
    sequences: fitted.concurrency,
    contextPerSequence: settings.context,
  });
  const threads = decodeThreads(config.threads);
  const updater = openUpdater({ run, model, settings, config, fitted, backend, python, log });
  let engine: Engine | undefined;
  let closeLog: (() => Promise<void>) | undefined;
  try {
    const at = run.store.lastStep();
    // Loads beside the engine and the first rollouts. The loop awaits it again and gets its error.
    const loading = at.step < settings.steps ? updater.prepare(run.checkpointOf(at)) : undefined;
    loading?.catch(() => undefined);
    closeLog = await logEngine(run.logFile("engine.log"), wanted.gpu);
    const loaded = await loadFitting(wanted, log);
    engine = loaded.engine;
    log(engineText(engine.info));
    run.saw("engine", engineFacts(engine.info));
    if (loading && threads === usableCores()) leaveCore(engine, loading);
    const chat = chatSettings(settings);
    requireFormat(chatOf(engine, chat), task.tools, model);
    const policy = new EnginePolicy(engine, {
      ...play,
      engine: loaded.options,
      limits: limitsOf(settings, config),
      temperature: settings.temperature,
      chat,
      concurrency: loaded.options.sequences,
      workers: config.workers,
      maxExceptions: config.maxExceptions,
      releaseWeights: config.releaseWeights,
      onFailure: ({ id, error }) => log(`rollout ${id} failed: ${error}`),
      log,
    });
    const parts = {
      run,
      settings: loopSettings(settings, config, engine.info, rewards.spreadFloor),
      policy,
      updater,
      ...rewards,
      view: watch(settings.steps, pushesOther(settings)),
      signal,
    };
    await train({ ...parts, scenarios: await withinDifficulty(parts, scenarios, settings, loading) });
  } finally {
    await updater.close();
    await engine?.close();
    await closeLog?.();
    await rewards.close();
  }
}

/** Two programs that want all cores take far longer than either alone: the engine uses one less until `work` is done. */
function leaveCore(engine: Engine, work: Promise<void>): void {
  if (engine.info.threads < 2) return;
  engine.holdThreads(engine.info.threads - 1);
  const release = () => engine.holdThreads(undefined);
  work.then(release, release);
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
  const mismatches = run.store.steps().flatMap(({ metrics }) => metrics?.mismatch ?? []);
  return {
    run: run.name,
    folder: run.folder,
    steps: last.step,
    seconds,
    difficulty: difficultyOf(run.store.difficulty(), run.store.record()?.options.difficulty),
    before: shareOf(validations.find(({ step }) => step === 0)),
    after: shareOf(validations.find(({ step }) => step === last.step)),
    best: best ? { step: best.step, success: best.result.success } : null,
    mismatch:
      mismatches.length === 0
        ? null
        : {
            mean: mismatches.reduce((sum, mismatch) => sum + mismatch.mean, 0) / mismatches.length,
            p99: Math.max(...mismatches.map((mismatch) => mismatch.p99)),
            max: Math.max(...mismatches.map((mismatch) => mismatch.max)),
          },
    judge: run.store.judgeSpending() ?? null,
    adapter: typeof best?.checkpoint === "number" ? run.checkpoints.adapterOf(best.checkpoint) : null,
  };
}
