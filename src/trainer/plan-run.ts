/**
 * Everything about a run that is known before its model is loaded: its folder, its settings, whether it fits. A model and a task
 * that a program has opened are taken as they are.
 */

import { basename, join, resolve } from "node:path";
import { toolsFingerprint, withServers } from "../agent/servers.js";
import { type Config, type GivenOptions, optionsOf, withDefaults } from "../core/config/config.js";
import { DEFAULT_MODEL } from "../core/config/defaults.js";
import type { LocalEngineInfo } from "../core/engine/engine.js";
import type { RunRecord } from "../core/run/records.js";
import { STORE_FILE } from "../core/run/run.js";
import { type RunSettings, taskOptionsIn } from "../core/run/settings.js";
import { RunStore } from "../core/run/store.js";
import type { ServerPlan } from "../core/task/servers.js";
import type { AnyTask, PlainOptions, Scenario } from "../core/task/task.js";
import { UsageError } from "../core/util/errors.js";
import { isFolderName } from "../core/util/paths.js";
import { takeDevice } from "../engine/device/device.js";
import type { LearnerPlace } from "../engine/device/learner-place.js";
import { type ModelShape, modelFingerprint } from "../engine/models.js";
import type { TrackerName } from "../insight/track/names.js";
import type { LocalJudgePlan } from "../judge/reward/local-judge.js";
import { judgesHere, requireRewards } from "../judge/reward/open.js";
import { type RewardKind, rewardNamed } from "../judge/reward/registry.js";
import { withAbsolutePaths } from "../machine/models/absolute-paths.js";
import type { PeftAdapter } from "../machine/models/adapter.js";
import { checkTrainable, conversingModel } from "../machine/models/header.js";
import { resolveWithSource } from "../machine/models/resolve.js";
import type { PlanInput } from "../machine/plan/input.js";
import { checkEngineChoice } from "../machine/play/engine-choice.js";
import { scenariosFingerprint } from "../scenarios/held-out.js";
import { loadTask, scenariosOf } from "../scenarios/load.js";
import { givenForTask, recordedForTask, resolveTaskOptions } from "../scenarios/task-options.js";
import { checkLaunch } from "./learner-options.js";
import type { Model } from "./model.js";
import { machineOf, memoryOf } from "./plan-machine.js";
import { ScenarioSampler } from "./sampler.js";
import { asksForAnother, modelOf, resolveSettings } from "./settings.js";
import { type OpenTask, openedTask } from "./task.js";
import type { TrainConfig } from "./train-options.js";

/** A run before it begins, or goes on. Nothing of it is held: any number of plans may be made. */
export interface RunPlan {
  /** The run's folder, whether it is there or not. */
  readonly folder: string;
  /** What the run is, and records. */
  readonly settings: RunSettings;
  /** Fingerprints of the rest that makes it this run: model, scenarios, tools. */
  readonly contents: RunRecord["contents"];
  /** What was given, without defaults. */
  readonly given: GivenOptions;
  /** How it is computed on this machine. */
  readonly config: TrainConfig;
  readonly task: OpenTask;
  /** The model's file, and what its header says. */
  readonly model: string;
  readonly shape: ModelShape;
  /** The device of engine and, unless it has one of its own, learner. */
  readonly backend: LocalEngineInfo["gpu"];
  readonly place: LearnerPlace;
  /** Engine and learner have memory of their own: the engine stays awake during updates. */
  readonly apart: boolean;
  /** CPU threads of the learner. */
  readonly learnerThreads: number;
  /** The settings that fit into this machine's memory. */
  readonly fitted: PlanInput;
  /** The first adapter, where another program has trained it. */
  readonly initial: PeftAdapter | undefined;
  /** The judge that hone runs. */
  readonly judge: LocalJudgePlan | undefined;
  /** The program's reward, in place of the one that the settings name. */
  readonly reward: RewardKind | undefined;
  readonly trackers: readonly TrackerName[];
}

/** What a plan is made from. */
export interface Planning {
  /** Of the options of `yarn train`, without defaults. */
  readonly given: GivenOptions;
  readonly reward?: RewardKind | undefined;
  /** What a program has opened: its loaded model, and its task. */
  readonly opened?: { readonly model: Model; readonly task: OpenTask } | undefined;
  readonly log: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * @throws UsageError when an option is wrong, or they do not go together
 * @throws HoneError when the model cannot be trained, or the run does not fit this machine
 */
export async function planOf(planning: Planning): Promise<RunPlan> {
  const { opened, reward, log, signal } = planning;
  const config = withDefaults(optionsOf("train"), planning.given);
  // Before anything that may create the Python environment, which is made for the card.
  checkEngineChoice(config);
  checkLaunch(config);
  if (!opened) takeDevice(config);
  // A name that is none is refused before anything is read.
  rewardNamed(config.reward);
  const trackers = config.track ? (await import("../insight/track/names.js")).readTrackers(config.track) : [];
  const folder = await placeOf(config);
  const given = withAbsolutePaths(planning.given);
  const recorded = recordedIn(join(folder, STORE_FILE), given);
  const weights = (given.weights ?? recorded?.options.weights) as Config["weights"];

  const read = await (opened ? ofOpened(opened.task) : readTask(planning, given, config, recorded));
  const forked = config.fork === undefined ? undefined : await import("./init-adapter.js");
  const reference = opened?.model.reference ?? modelOf(given, recorded?.options.model);
  const settingsFor = (shape: ModelShape, converted = false) => {
    const settings = resolveSettings({
      // The weights that a card decided are the run's wherever it goes on.
      given: converted && weights === undefined ? { ...given, weights: shape.weightType.toLowerCase() } : given,
      recorded,
      model: { reference, ...shape },
      set: read.set,
      stepsPerEpoch: (groupsPerStep) => new ScenarioSampler(read.scenarios, { groupsPerStep, seed: 0 }).stepsPerEpoch,
    });
    return { settings, initial: forked?.initialAdapter(config, settings, shape) };
  };
  let machine: Awaited<ReturnType<typeof machineOf>> | undefined;
  // Before weights are downloaded or converted: whether the settings fit the model's shape, and the model this machine.
  const inspect = async (shape: ModelShape) => {
    const { settings } = settingsFor(shape);
    machine = await machineOf(config, settings, log);
    memoryOf({ settings, shape, judge: undefined, base: undefined, machine, model: undefined, log: () => undefined });
  };
  const { file: model, source } = opened
    ? { file: opened.model.info.model, source: undefined }
    : await resolveWithSource(reference, { ...config, weights }, { log, signal }, { inspect });
  const shape = await conversingModel(model);
  checkTrainable(shape, model, config.hfWeights !== undefined);
  const { settings, initial } = settingsFor(shape, source !== undefined);
  const judge = judgesHere(settings)
    ? await (await import("../judge/reward/local-judge.js")).planLocalJudge(
        { ...config, ...settings, home: config.home },
        log,
        signal,
      )
    : undefined;
  // A program may play other scenarios than the task's, and its own number of them.
  if (!opened) new ScenarioSampler(read.scenarios, settings);

  machine ??= await machineOf(config, settings, log);
  const base = read.rollout && (await import("../agent/with-base.js")).baseSizesOf(read.rollout);
  const fitted = memoryOf({ settings, shape, judge, base, machine, model: opened?.model, log });
  const task = await read.withServers(settings, join(folder, "logs", "mcp"));
  if (!opened) {
    await requireRewards(settings, task.task, reward);
    if (task.task.freeAnswers?.(task.scenarios)) {
      const { wordingWarning } = await import("../judge/reward/wording.js");
      const warning = wordingWarning(settings, task.task);
      if (warning) log(warning);
    }
  }
  const contents = {
    ...contentsOf(model, task.task, task.scenarios, task.servers),
    ...rewardNamed(settings.reward).contents(settings),
    ...(judge === undefined ? {} : { judge: judge.fingerprint }),
    ...(initial === undefined
      ? {}
      : { "first adapter": await (await import("../machine/models/adapter.js")).peftFingerprint(initial) }),
  };
  const { gpu: _, ...computed } = machine;
  const run = { folder, settings, contents, given, task, model, shape, fitted, initial, judge, reward, trackers };
  return { ...run, ...computed };
}

/** The run that goes on. One without a step begins anew with other options, and takes over none of those before. */
function recordedIn(file: string, given: GivenOptions): RunRecord | undefined {
  const recorded = RunStore.recordIn(file);
  return recorded && !RunStore.hasBegun(file) && asksForAnother(recorded, given) ? undefined : recorded;
}

interface ReadTask {
  /** Of a task that its own code plays. */
  readonly rollout: AnyTask["rollout"];
  /** The task's options that are the run's. */
  readonly set: PlainOptions;
  readonly scenarios: OpenTask["scenarios"];
  /** The task whose servers were asked for their tools. */
  withServers(settings: RunSettings, logs: string): Promise<OpenTask>;
}

function ofOpened(task: OpenTask): ReadTask {
  const { seed: _, home: __, ...set } = task.options;
  return { rollout: task.task.rollout, set, scenarios: task.scenarios, withServers: async () => task };
}

async function readTask(
  { log, signal }: Planning,
  given: GivenOptions,
  config: TrainConfig,
  recorded: RunRecord | undefined,
): Promise<ReadTask> {
  const settled = <K extends "task" | "seed">(name: K) =>
    (given[name] ?? recorded?.options[name] ?? config[name]) as Config[K];
  const reference = settled("task");
  const plain = await loadTask(reference, config.taskTimeout);
  const before = recorded ? recordedForTask(plain, taskOptionsIn(recorded)) : {};
  const set = resolveTaskOptions(plain, before, givenForTask(given));
  const options = { ...set, home: config.home, seed: settled("seed") };
  const scenarios = await scenariosOf(plain, options, { hub: config, log, ...(signal ? { signal } : {}) });
  return {
    rollout: plain.rollout,
    set,
    scenarios,
    withServers: async (settings, logs) => {
      const { task, servers } = await withServers(settings, plain, reference, logs, { log, signal });
      return openedTask({ task, reference, options, scenarios, mcp: settings.mcp, servers });
    },
  };
}

/**
 * Fingerprints of all that defines a run besides its settings: with other contents it is another run.
 *
 * @param model its file
 */
function contentsOf(
  model: string,
  task: AnyTask,
  scenarios: readonly Scenario[],
  servers: ServerPlan | undefined,
): RunRecord["contents"] {
  return {
    model: modelFingerprint(model),
    task: task.name,
    scenarios: scenariosFingerprint(scenarios),
    ...(servers ? { tools: toolsFingerprint(servers.tools) } : {}),
  };
}

/**
 * Examples: "qwen2.5-0.5b-instruct-f16" for the path of that file or hf:REPOSITORY:FILE, "tiny" for that name,
 * "Qwen2.5-0.5B-Instruct" for that repository at any revision.
 */
const stem = (model: string) =>
  basename(model)
    .replace(/^.*:/, "")
    .replace(/@.*$/, "")
    .replace(/\.gguf$/i, "");

type Place = Pick<Config, "home" | "project" | "run" | "model" | "task"> & Partial<Pick<Config, "taskTimeout">>;

/** The folder of a run to be trained, whether it is there or not. */
export async function placeOf({ home, project, run, model, task, taskTimeout }: Place): Promise<string> {
  const name = run ?? stem(model ?? DEFAULT_MODEL);
  checkName("--run", name);
  const folder = project ?? (await loadTask(task, taskTimeout)).name;
  checkName("--project", folder);
  return resolve(home, folder, "models", name);
}

function checkName(flag: string, name: string): void {
  if (!isFolderName(name)) {
    throw new UsageError(`${flag} ${name}: use letters, digits, ".", "_" and "-", it becomes the name of a folder`);
  }
}
