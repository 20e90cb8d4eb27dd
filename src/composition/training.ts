/** A whole training: `yarn train` is this function and its output. */
import { type GivenOptions, givenByProgram, libraryOptions, optionsOf, withDefaults } from "../config/config.js";
import { isLocal, type LocalEngine, type PolicyEngine } from "../engine/engine.js";
import { gpuChosen } from "../engine/engine-options.js";
import { decodeThreads, usableCores } from "../engine/threads.js";
import { openPlaying } from "../play/playing-engine.js";
import { pythonFor } from "../python-env/machine.js";
import { ensurePython } from "../python-env/python.js";
import { engineFacts, engineText } from "../report/compute.js";
import type { RewardKind } from "../reward/kind.js";
import { openRewards } from "../reward/open.js";
import { programKind, programReward } from "../reward/program.js";
import { pushesOther } from "../reward/registry.js";
import { chatOf, chatSettings, requireFormat } from "../rollout/chat.js";
import { logEngine } from "../run/engine-log.js";
import { checkStaleness } from "../train/apart.js";
import { train as trainLoop } from "../train/loop.js";
import type { View } from "../train/parts.js";
import { type Prepared, prepare } from "../train/prepare.js";
import { rescoredText } from "../train/rescored.js";
import { endTracking, tracked, trackingOf } from "../train/tracked.js";
import { UsageError } from "../util/errors.js";
import { type Begun, beginWithLearner, learnerPython, stepsOf, warnOfRate } from "./begin.js";
import { viewOf } from "./events.js";
import { Model } from "./model.js";
import { checkNumbers, isNumbers } from "./rewards.js";
import { summarise, type TrainSummary } from "./summary.js";
import { openedTask } from "./task.js";
import { telling } from "./telling.js";
import { type TrainRunChoice, type TrainRunOptions, trainOptions } from "./train-options.js";

/** The program's function as a reward, which the options may not name too. */
function ownReward({ reward, spreadFloor = 0 }: TrainRunChoice, named: unknown): RewardKind | undefined {
  if (reward === undefined) {
    if (spreadFloor !== 0) throw new UsageError("spreadFloor is of a reward function; give one, or leave it out");
    return undefined;
  }
  if (named !== undefined && named !== programKind.name) {
    throw new UsageError(`--reward ${named} and a reward function are both given; give one of them`);
  }
  return programReward(async (group, step) => {
    const given = await reward(group, step);
    if (!isNumbers(given)) return given;
    checkNumbers(group, given, `the group of ${group[0]?.scenario.id}`);
    return { kind: "rewarded", rewards: given };
  }, spreadFloor);
}

/** See `trainRun`. */
export async function runTraining(options: TrainRunOptions, choice: TrainRunChoice): Promise<TrainSummary> {
  const started = performance.now();
  const { log = () => undefined, signal = new AbortController().signal } = choice;
  const asked = await givenByProgram(options, trainOptions);
  const kind = ownReward(choice, asked.reward);
  const given = kind ? { ...asked, reward: kind.name } : asked;
  const wanted = withDefaults(optionsOf("train"), given);
  const trackers = wanted.track ? (await import("../track/names.js")).readTrackers(wanted.track) : [];
  const prepared = await prepare(wanted, given, log, signal, kind);
  const { config, settings, model, backend, place } = prepared;
  checkStaleness(prepared);
  const learner = pythonFor(config, backend === "cuda", log);
  const python = await learnerPython(learner);
  // A tracker is told of the whole run from its start, so what it needs is installed before.
  const tracker =
    trackers.length === 0
      ? ""
      : await ensurePython({ ...learner, extras: ["trackers", ...(learner.extras ?? [])], needs: trackers, signal });
  const first =
    prepared.initial &&
    (await (await import("../train/init-adapter.js")).firstCheckpoint(prepared, config, { log, signal }));
  const begun = await beginWithLearner(
    { ...prepared, fork: prepared.initial ? first : config.fork },
    { model, config, fitted: prepared.fitted, place, threads: prepared.learnerThreads, python, log },
  );
  const { run } = begun;
  try {
    const { previousOwner: owner } = run;
    const at = run.store.lastStep().step;
    if (owner) log(`process ${owner.pid}, which trained this run since ${owner.since}, was ended from outside`);
    if (run.begunAnew) log(`${run.folder}: had no step yet, and begins anew with these options`);
    if (at > 0) log(`${run.folder}: going on after step ${at} of ${settings.steps}`);
    warnOfRate(run, settings, log);
    const tracking = await trackingOf(trackers, run, settings, tracker, log);
    const unsolved = run.store.steps().every(({ metrics }) => !metrics?.success);
    const told = { given, settings, task: prepared.task, run: run.name, unsolved };
    const view = tracked(telling(viewOf(choice), told), tracking);
    const { steps } = settings;
    const start = () => choice.onStart?.({ folder: run.folder, step: at, steps, judged: pushesOther(settings) });
    try {
      await trainWith(begun, prepared, { given, kind, start, view, log, signal });
    } finally {
      await endTracking(tracking, run, steps);
    }
    return summarise(run, (performance.now() - started) / 1000);
  } finally {
    run.close();
  }
}

interface Training extends Required<Pick<TrainRunChoice, "log" | "signal">> {
  readonly given: GivenOptions;
  readonly kind: RewardKind | undefined;
  /** Called when everything is loaded. */
  readonly start: () => void;
  readonly view: View;
}

async function trainWith(
  begun: Begun,
  prepared: Prepared,
  { given, kind, start, view, log, signal }: Training,
): Promise<void> {
  const { config, model: file, task, settings, all, scenarios, fitted, play, backend, judge, apart } = prepared;
  const { run, updater } = begun;
  const { taskOptions } = play;
  const rewards = await openRewards({
    ...{ settings, config, task, taskOptions, store: run.store, kind, local: judge },
    ...{ signal, log },
  });
  const wanted = {
    model: file,
    sequences: fitted.concurrency,
    // More than one are the engine's own choice, which it makes anew where memory suffices for fewer rollouts only.
    lanes: fitted.lanes === 1 ? 1 : undefined,
    contextPerSequence: settings.context,
    adapterRank: settings.loraRank,
    logFile: run.logFile("vllm.log"),
    ...(fitted.served?.own ? { rests: fitted.served.own.rests } : {}),
  };
  let engine: PolicyEngine | undefined;
  let model: Model | undefined;
  let closeLog: (() => Promise<void>) | undefined;
  let rescoring: Promise<string | undefined> | undefined;
  try {
    const at = run.store.lastStep();
    // Beside the engine's start, and over before anything is played.
    if (at.step > 0) rescoring = rescoredText(run.store, prepared);
    rescoring?.catch(() => undefined);
    // Loads beside the engine and the first rollouts. The loop awaits it again and gets its error.
    const loading = at.step < settings.steps ? updater.prepare(run.checkpointOf(at)) : undefined;
    loading?.catch(() => undefined);
    closeLog = await logEngine(run.logFile("engine.log"), gpuChosen(config));
    const loaded = await openPlaying(config, wanted, backend === "cuda", { log, signal });
    engine = loaded.engine;
    log(engineText(engine.info));
    const changed = await rescoring;
    if (changed !== undefined) log(changed);
    if (isLocal(engine)) rewards.judgeBeside?.(engine);
    run.saw("engine", engineFacts(engine.info));
    const full = loading && decodeThreads(config.threads) === usableCores();
    if (full && isLocal(engine)) leaveCore(engine, loading);
    const chat = chatSettings(settings);
    requireFormat(chatOf(engine, chat), task.tools, file);
    const { temperature, maxTurns, maxTokens, onToolError, offForm, toolFormat, templateArg, maxThinkingTokens } =
      settings;
    const ends = { maxTurns, maxTokens, onToolError, offForm };
    const played = { temperature, ...ends, toolFormat, templateArg, maxThinkingTokens };
    model = new Model(
      settings.model,
      withDefaults(libraryOptions("model"), { ...given, ...played }),
      {
        engine,
        player: { kind: "engine", engine: loaded.options, sampling: { temperature }, chat, adapter: null },
        concurrency: loaded.options.sequences,
      },
      log,
    );
    const { task: reference, servers } = play;
    const opened = openedTask({ task, reference, options: taskOptions, scenarios: all, mcp: settings.mcp, servers });
    const { spreadFloor, judgeBeside: _, close: __, ...rewarding } = rewards;
    const steps = await stepsOf(begun, { model, task: opened, settings, config, spreadFloor, apart, view });
    const parts = { ...steps, ...rewarding, signal };
    start();
    const chosen =
      settings.difficulty === undefined && settings.rest === 0
        ? scenarios
        : await (await import("../train/difficulty.js")).withinDifficulty(parts, scenarios, settings, loading);
    await trainLoop({ ...parts, scenarios: chosen });
  } finally {
    await rescoring?.catch(() => undefined);
    await updater.close();
    // A judge of this process may still hold the engine's threads.
    await rewards.close();
    await (model ?? engine)?.close();
    await closeLog?.();
  }
}

/** Two programs that want all cores take far longer than either alone: the engine uses one less until `work` is done. */
function leaveCore(engine: LocalEngine, work: Promise<void>): void {
  if (engine.info.threads < 2) return;
  engine.holdThreads(engine.info.threads - 1);
  const release = () => engine.holdThreads(undefined);
  work.then(release, release);
}
