/** Everything about a run that is known before anything is loaded: its folder, its settings, whether it fits. */
import { join } from "node:path";
import { type Config, type GivenOptions, type OptionOf, sizedDefault } from "../config/config.js";
import { ROLLOUTS_AT_ONCE } from "../config/defaults.js";
import { takeDevice } from "../device/device.js";
import { learnerPlace } from "../device/learner-place.js";
import type { NvidiaGpu } from "../device/nvidia.js";
import { contextsOf } from "../engine/contexts.js";
import { drawsOnDevice, gpuChosen } from "../engine/engine-options.js";
import { gpuMemory } from "../engine/load.js";
import type { ModelShape } from "../engine/models.js";
import { withServers } from "../gather/servers.js";
import { checkLaunch } from "../learn/launch.js";
import { checkTrainable, conversingModel } from "../models/header.js";
import { linesTo } from "../models/io.js";
import { resolveWithSource } from "../models/resolve.js";
import { fitToMachine } from "../plan/fit.js";
import type { Served } from "../plan/input.js";
import { mainMemory } from "../plan/machine.js";
import { checkEngineChoice } from "../play/engine-choice.js";
import { prepareMachine } from "../python-env/machine.js";
import type { RewardKind } from "../reward/kind.js";
import { judgesHere, requireRewards } from "../reward/open.js";
import { rewardNamed } from "../reward/registry.js";
import { wordingWarning } from "../reward/wording.js";
import type { RolloutLimits } from "../rollout/rollout.js";
import { placeOf } from "../run/place.js";
import { STORE_FILE } from "../run/run.js";
import { type RunSettings, taskOptionsIn } from "../run/settings.js";
import { RunStore } from "../run/store.js";
import { loadTask, scenariosOf } from "../tasks/load.js";
import { givenForTask, recordedForTask, resolveTaskOptions } from "../tasks/task-options.js";
import { UsageError } from "../util/errors.js";
import { checkAwake, dividedCores, sharesCard } from "./apart.js";
import { contentsOf } from "./contents.js";
import { ScenarioSampler } from "./sampler.js";
import { modelOf, resolveSettings, withAbsolutePaths } from "./settings.js";

export type TrainConfig = Config<OptionOf<"train">>;

export function limitsOf(
  settings: Pick<RunSettings, "maxTurns" | "maxTokens" | "onToolError" | "offForm">,
  config: Pick<Config, "turnTimeout" | "toolTimeout" | "rolloutTimeout" | "taskTimeout">,
): RolloutLimits {
  return {
    maxTurns: settings.maxTurns,
    maxTokens: settings.maxTokens,
    turnSeconds: config.turnTimeout,
    toolSeconds: config.toolTimeout,
    rolloutSeconds: config.rolloutTimeout,
    taskSeconds: config.taskTimeout,
    onToolError: settings.onToolError,
    offForm: settings.offForm,
  };
}

/** The servers of the engine, as the plan counts them. */
function servedBy(
  { engine, engineUrl, engineMemory }: TrainConfig,
  gpu: { readonly kind: string | false; readonly total: number } | null,
): Served | undefined {
  if (engine !== "vllm") return undefined;
  if (engineUrl !== undefined) return { own: null };
  const onGpu = gpu?.kind === "cuda";
  return { own: { rests: onGpu ? "sleeps" : "stays", gpu: onGpu ? engineMemory * gpu.total : 0 } };
}

/**
 * The facts known before anything is loaded.
 * @param reward in place of the one that the options name
 */
export async function prepare(
  asked: TrainConfig,
  asGiven: GivenOptions,
  log: (text: string) => void,
  signal?: AbortSignal,
  reward?: RewardKind,
) {
  let config = asked;
  // Before anything that may create the Python environment, which is made for the card.
  checkEngineChoice(config);
  checkLaunch(config);
  takeDevice(config);
  rewardNamed(config.reward);
  const folder = await placeOf(config);
  const recorded = RunStore.recordIn(join(folder, STORE_FILE));
  const given = withAbsolutePaths(asGiven);
  const reference = modelOf(given, recorded?.options.model);
  const weights = (given.weights ?? recorded?.options.weights) as Config["weights"];

  const chosen = <K extends "task" | "seed">(name: K) =>
    (given[name] ?? recorded?.options[name] ?? config[name]) as Config[K];
  const taskReference = chosen("task");
  const plain = await loadTask(taskReference, config.taskTimeout);
  const set = resolveTaskOptions(
    plain,
    recorded ? recordedForTask(plain, taskOptionsIn(recorded)) : {},
    givenForTask(given),
  );
  const taskOptions = { ...set, home: config.home, seed: chosen("seed") };
  const all = await scenariosOf(plain, taskOptions, { hub: config, log, ...(signal ? { signal } : {}) });
  const forked = config.fork === undefined ? undefined : await import("./init-adapter.js");
  const settingsFor = (shape: ModelShape, converted = false) => {
    const settings = resolveSettings({
      // The weights that a card decided are the run's wherever it goes on.
      given: converted && weights === undefined ? { ...given, weights: shape.weightType.toLowerCase() } : given,
      recorded,
      model: { reference, ...shape },
      set,
      stepsPerEpoch: (groupsPerStep) => new ScenarioSampler(all, { groupsPerStep, seed: 0 }).stepsPerEpoch,
    });
    return { settings, initial: forked?.initialAdapter(config, settings, shape) };
  };
  // Where the configuration suffices, a mismatch with the model is reported before its weights are downloaded.
  const inspect = (shape: ModelShape) => void settingsFor(shape);
  const from = { ...config, weights };
  const { file: model, source } = await resolveWithSource(reference, from, linesTo(log, signal), { inspect });
  const shape = await conversingModel(model);
  checkTrainable(shape, model, config.hfWeights !== undefined);
  const { settings, initial } = settingsFor(shape, source !== undefined);
  const judge = judgesHere(settings, reward)
    ? await (await import("../reward/local-judge.js")).planLocalJudge(
        { ...config, ...settings, home: config.home },
        log,
        signal,
      )
    : undefined;
  const scenarios = new ScenarioSampler(all, settings);

  await prepareMachine(config, log, true);
  const gpu = await gpuMemory(gpuChosen(config));
  if (config.learnerLifetime === "offload" && (gpu?.kind !== "cuda" || config.learnerDevice === "cpu")) {
    throw new UsageError(
      "--learner-lifetime offload moves the learner off an NVIDIA GPU, and here it computes on the CPU; use --learner-lifetime step to give its memory back",
    );
  }
  const place = learnerPlace(config.learnerDevice, gpu?.kind ?? false);
  const apart = place.apart || (settings.staleness > 0 && !sharesCard(config, gpu));
  if (apart) checkAwake(config);
  const cores = dividedCores(config, settings.staleness, gpu !== null);
  config = { ...config, threads: cores.engine };
  const most = Math.min(settings.groupsPerStep * settings.groupSize, gpu ? ROLLOUTS_AT_ONCE.gpu : ROLLOUTS_AT_ONCE.cpu);
  const concurrency = config.concurrency ?? most;
  const { lanes, ubatch } = contextsOf(
    { threads: config.threads, sequences: concurrency },
    shape.bytes,
    gpu?.kind ?? false,
  );
  const fitted = fitToMachine(
    {
      shape,
      concurrency,
      context: settings.context,
      loraRank: settings.loraRank,
      loraTargets: settings.loraTargets,
      microBatchTokens: settings.microBatchTokens,
      gradientCheckpointing: config.gradientCheckpointing ?? false,
      learnerLifetime: config.learnerLifetime,
      releaseWeights: config.releaseWeights,
      gpu: gpu?.kind ?? false,
      learnerOn: place.card ? "own card" : config.learnerDevice === "cpu" ? "cpu" : "engine's",
      awake: apart,
      precision: config.precision,
      hfWeights: config.hfWeights !== undefined,
      learner: config.learner,
      lanes,
      ubatch,
      sampling: drawsOnDevice("auto", gpu?.kind ?? false) ? "device" : "host",
      served: servedBy(config, gpu),
      judge: judge ?? null,
    },
    {
      concurrency: config.concurrency === undefined,
      gradientCheckpointing: config.gradientCheckpointing === undefined,
      microBatchTokens:
        config.microBatchTokens === undefined &&
        settings.microBatchTokens === sizedDefault("microBatchTokens", shape.parameters),
    },
    {
      host: mainMemory(),
      gpu: gpu && { name: gpu.name, total: gpu.total, available: gpu.free },
      learnerGpu: place.card ? memoryOf(place.card) : null,
    },
    log,
  );
  const logs = join(folder, "logs", "mcp");
  const { task, servers } = await withServers(settings, plain, taskReference, logs, { log, signal });
  requireRewards(settings, task, reward);
  const warning = wordingWarning(settings, task, all);
  if (warning) log(warning);
  const contents = {
    ...contentsOf(model, task, all, servers),
    ...rewardNamed(settings.reward).contents(settings),
    ...(judge === undefined ? {} : { judge: judge.fingerprint }),
    ...(initial === undefined
      ? {}
      : { "first adapter": await (await import("../models/adapter.js")).peftFingerprint(initial) }),
  };
  const play = { task: taskReference, taskOptions, servers };
  const backend = gpu?.kind ?? false;
  const machine = { config, backend, place, apart, learnerThreads: cores.learner };
  return { folder, model, shape, task, settings, all, scenarios, fitted, contents, play, initial, judge, ...machine };
}

/** As nvidia-smi says it; what other programs use of that card is not known before the learner is there. */
function memoryOf({ name, memoryBytes = Number.POSITIVE_INFINITY }: NvidiaGpu) {
  return { name, total: memoryBytes, available: memoryBytes };
}

export type Prepared = Awaited<ReturnType<typeof prepare>>;
