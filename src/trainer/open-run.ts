/**
 * From a plan to an open run: its folder, its learner, and its model, which is loaded where a program has not done that. All
 * trainings are put together here, whoever makes their steps.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Chat, chatOf, requireFormat } from "../chat/chat.js";
import { libraryOptions, withDefaults } from "../core/config/config.js";
import { type Engine, isLocal, type LocalEngine } from "../core/engine/engine.js";
import type { Rewards } from "../core/reward/reward.js";
import { chatSettings } from "../core/rollout/conversation.js";
import { Run } from "../core/run/run.js";
import { checkSameRun, type RunSettings, taskOptionsIn } from "../core/run/settings.js";
import { promptOf } from "../core/task/messages.js";
import { type Scenario, type Tool, toolSchema } from "../core/task/task.js";
import { LastUpdates } from "../core/train/earlier.js";
import { risingRateText } from "../core/train/schedule.js";
import { gpuChosen } from "../engine/engine-options.js";
import { logEngine } from "../engine/load.js";
import { decodeThreads, usableCores } from "../engine/threads.js";
import type { AdapterConfig, AdapterReader } from "../guards/asked.js";
import type { Dealt } from "../guards/draws.js";
import type { GivenReader } from "../guards/given.js";
import { guardsOf } from "../guards/guard-list.js";
import type { RenderedReader } from "../guards/rendered.js";
import type { StoreReader } from "../guards/stored.js";
import { openRewards, requireRewards } from "../judge/reward/open.js";
import { engineFacts, engineText } from "../machine/compute.js";
import { openPlaying } from "../machine/play/playing-engine.js";
import { pythonFor } from "../machine/python/machine.js";
import { ensurePython, type PythonOptions } from "../machine/python/python.js";
import { RunReader } from "../machine/runs/reader.js";
import { taskDifferences } from "../scenarios/task-options.js";
import { checkStaleness } from "./apart.js";
import { Jinja2 } from "./jinja2.js";
import { Model } from "./model.js";
import type { RunPlan } from "./plan-run.js";
import { loopSettings } from "./settings.js";
import { viewOf } from "./telling.js";
import type { RunEvents } from "./train-options.js";
import { playInForce, TrainingRun } from "./training-run.js";
import { openUpdater, type UpdaterSources } from "./updater.js";

/** What a run opens, in the order in which it ends. A judge of this process may still hold the engine's threads. */
const ENDS = ["rewarding", "jinja2", "learner", "rewards", "model", "log", "trackers", "events"] as const;

interface Io {
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

/**
 * @param given a loaded model, which is its owner's to close
 * @throws UsageError when the run was begun with other settings, or on other contents
 * @throws HoneError when another process holds it, or its model cannot be loaded
 */
export async function openPlanned(plan: RunPlan, events: RunEvents, given?: Model): Promise<TrainingRun> {
  const { onStart, ...heard } = viewOf(events);
  const { log } = heard.view;
  const { signal = new AbortController().signal } = events;
  const io = { log, signal };
  const { config, settings, task, trackers } = plan;
  checkStaleness(plan);
  const learner = pythonFor(config, plan.backend === "cuda", log);
  const python = await learnerPython(learner);
  // A tracker is told of the whole run from its start, so what it needs is installed before.
  const tracker =
    trackers.length === 0
      ? ""
      : await ensurePython({ ...learner, extras: ["trackers", ...(learner.extras ?? [])], needs: trackers, signal });
  const run = await beginRun(plan, await forkOf(plan, io));
  const ends: Partial<Record<(typeof ENDS)[number], () => unknown>> = {};
  const close = async () => {
    let failed: { readonly error: unknown } | undefined;
    for (const name of ENDS) {
      try {
        await ends[name]?.();
      } catch (error) {
        // The others end all the same.
        failed ??= { error };
      }
    }
    run.close();
    if (failed) throw failed.error;
  };
  try {
    greet(run, settings, log);
    ends.events = () => heard.end();
    let { view } = heard;
    if (trackers.length > 0) {
      const { endTracking, tracked, trackingOf } = await import("./tracked.js");
      const tracking = await trackingOf(trackers, run, settings, tracker, log);
      ends.trackers = () => endTracking(tracking, run, settings.steps);
      view = tracked(view, tracking);
    }
    const updater = openUpdater({ ...plan, run, threads: plan.learnerThreads, python, log });
    ends.learner = () => updater.close();
    let opening: Promise<Rewards> | undefined;
    const rewards = () => {
      opening ??= rewardsOf(plan, run, io);
      return opening;
    };
    ends.rewards = async () => (await opening?.catch(() => undefined))?.close();
    if (!given) await rewards();

    const at = run.store.lastStep();
    // Beside the engine's start, and over before anything is played.
    const rewarding =
      given || at.step === 0
        ? undefined
        : import("./replay/rewards.js").then(({ rewardsChanged }) => rewardsChanged(run.store, plan));
    ends.rewarding = () => rewarding?.catch(() => undefined);
    rewarding?.catch(() => undefined);
    // Loads beside the engine and the first rollouts. The first update awaits it again and gets its error.
    const loading = at.step < settings.steps ? updater.prepare(run.checkpointOf(at)) : undefined;
    loading?.catch(() => undefined);
    if (!given) ends.log = await logEngine(run.logFile("engine.log"), gpuChosen(config));
    const model = given ?? (await loadModel(plan, run, io));
    if (!given) ends.model = () => model.close();
    const changed = await rewarding;
    if (changed !== undefined) log(changed);
    const { engine, info } = model;
    run.saw("engine", engineFacts(info));
    if (loading && isLocal(engine) && decodeThreads(config.threads) === usableCores()) leaveCore(engine, loading);
    const chat = chatOf(engine, chatSettings(settings));
    requireFormat(chat, task.task.tools, plan.model);
    const reader = readerOf(engine, chat, task.task.tools);
    const jinja2 = new Jinja2(() => python(signal), run.logFile("learner.log"));
    ends.jinja2 = () => jinja2.close();
    const { render } = jinja2;
    const { maxTurns } = settings;
    const prompt = task.task.rollout ? undefined : (scenario: Scenario) => promptOf(task.task, scenario, { maxTurns });
    const sources = { reader, render, prompt, store: storeOf(run), settings };
    const guards = (dealt: Dealt | undefined) => guardsOf({ ...sources, dealt });
    const parts = {
      run,
      updater,
      view,
      lastUpdates: new LastUpdates(),
      settings: loopSettings(settings, config, info, plan.apart),
      policy: await model.policy(task, config.releaseWeights),
    };
    if (given && settings.staleness === 0) await playInForce({ parts, guards });
    const rewardsBeside = async () => {
      const opened = await rewards();
      if (isLocal(engine)) opened.judgeBeside?.(engine);
      return opened;
    };
    const about = { rewards: rewardsBeside, loading, events: { ...events, ...io, onStart }, close };
    return new TrainingRun({ plan, model, keepsModel: given !== undefined, parts, guards, ...about });
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * The learner's interpreter. Hone's own is installed when the learner is started: beside the engine and the first rollouts. One
 * that the user names is checked now.
 *
 * @throws HoneError when that one cannot be used
 */
async function learnerPython(options: PythonOptions): Promise<UpdaterSources["python"]> {
  if (options.python === undefined) return (signal) => ensurePython({ ...options, signal });
  const given = await ensurePython(options);
  return async () => given;
}

/** The checkpoint that a new run starts from. */
async function forkOf(plan: RunPlan, io: Io): Promise<string | undefined> {
  if (!plan.initial) return plan.config.fork;
  const { firstCheckpoint } = await import("./init-adapter.js");
  return firstCheckpoint(plan, plan.config, io);
}

/** What there is to say of a run that goes on. */
function greet(run: Run, settings: RunSettings, log: (line: string) => void): void {
  const at = run.store.lastStep();
  const { previousOwner: owner } = run;
  if (owner) log(`process ${owner.pid}, which trained this run since ${owner.since}, was ended from outside`);
  if (run.begunAnew) log(`${run.folder}: had no step yet, and begins anew with these options`);
  const { step } = at;
  if (step > settings.steps) log(`${run.folder}: has ${step} steps, more than --steps ${settings.steps}`);
  else if (step > 0) log(`${run.folder}: going on after step ${step} of ${settings.steps}`);
  const rate = at.metrics?.learning_rate;
  if (rate === undefined) return;
  // More steps than before raise the learning rate again.
  const standing = { name: run.name, step, rate, checkpoint: run.checkpointOf(at) };
  const text = risingRateText(settings, settings.steps, standing);
  if (text !== undefined) log(text);
}

/** What the model was given is read by this thread's own template and vocabulary: players have theirs. */
function readerOf(engine: Engine, { template, closing }: Chat, tools: readonly Tool[]): GivenReader & RenderedReader {
  return {
    template,
    closing,
    tools: tools.map((tool) => toolSchema(tool)),
    tokenize: (text) => engine.tokenize(text, { special: true }),
    detokenize: (ids) => engine.detokenize(ids, { special: true }),
  };
}

/** Reads by a connection of its own. */
const storeOf = ({ folder, checkpoints }: Run): StoreReader & AdapterReader => ({
  adapterConfig: (step) =>
    JSON.parse(readFileSync(join(checkpoints.pathOf(step), "adapter", "adapter_config.json"), "utf8")) as AdapterConfig,
  rollouts: (step) => readStore(folder, (reader) => [...reader.rollouts({ phase: "train", from: step, to: step })]),
  metrics: (step) => readStore(folder, (reader) => reader.steps().find((row) => row.step === step)?.metrics ?? null),
  validations: () => readStore(folder, (reader) => reader.validations()),
});

function readStore<T>(folder: string, read: (reader: RunReader) => T): T {
  using reader = RunReader.open(folder);
  return read(reader);
}

/** The rewards that the options name, or the program's own. */
async function rewardsOf({ settings, config, task, reward, judge }: RunPlan, run: Run, io: Io): Promise<Rewards> {
  await requireRewards(settings, task.task, reward);
  return openRewards({
    settings,
    config,
    task: task.task,
    taskOptions: task.options,
    store: run.store,
    kind: reward,
    local: judge,
    ...io,
  });
}

async function loadModel(plan: RunPlan, run: Run, io: Io): Promise<Model> {
  const { config, settings, fitted, given, backend } = plan;
  const wanted = {
    model: plan.model,
    sequences: fitted.concurrency,
    // More than one are the engine's own choice, which it makes anew where memory suffices for fewer rollouts only.
    lanes: fitted.lanes === 1 ? 1 : undefined,
    contextPerSequence: settings.context,
    adapterRank: settings.loraRank,
    logFile: run.logFile("vllm.log"),
    ...(fitted.served?.own ? { rests: fitted.served.own.rests } : {}),
  };
  const { engine, options } = await openPlaying(config, wanted, backend === "cuda", io);
  io.log(engineText(engine.info));
  const sampling = { temperature: settings.temperature };
  const player = { kind: "engine", engine: options, sampling, chat: chatSettings(settings), adapter: null } as const;
  const ofModel = withDefaults(libraryOptions("model"), { ...given, ...settings });
  return new Model(settings.model, ofModel, engine, player, io.log);
}

/** Two programs that want all cores take far longer than either alone: the engine uses one less until `work` is done. */
function leaveCore(engine: LocalEngine, work: Promise<void>): void {
  if (engine.info.threads < 2) return;
  engine.holdThreads(engine.info.threads - 1);
  const release = () => engine.holdThreads(undefined);
  work.then(release, release);
}

/**
 * Starts the plan's run, or resumes it.
 *
 * @param fork checkpoint folder that a new run starts from
 * @throws UsageError when it was begun with other settings, or on other contents
 * @throws HoneError as Run.open
 */
function beginRun({ folder, settings, contents, task: { task } }: RunPlan, fork: string | undefined): Promise<Run> {
  const { loraRank: rank, loraAlpha: alpha, loraTargets: targets } = settings;
  return Run.open({
    folder,
    record: { options: { ...settings }, contents },
    shape: { model: contents.model as string, lora: { rank, alpha, targets } },
    fork,
    agree: (before) => {
      const ofTask = taskDifferences(task, taskOptionsIn(before), settings.set);
      checkSameRun(before, settings, contents, folder, ofTask);
    },
  });
}
