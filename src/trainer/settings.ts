/**
 * The settings of training, resolved once. Strongest first: given options, the recorded run, a preset, defaults by the
 * model's size, the option's default.
 */
import { type Config, type GivenOptions, keptOptions, options, sizedDefaults } from "../core/config/config.js";
import { CONTEXT, DEFAULT_MODEL } from "../core/config/defaults.js";
import type { PolicyEngine } from "../core/engine/engine.js";
import { type ObjectiveName, objectiveOf } from "../core/learn/objectives.js";
import { LINEAR_LAYERS } from "../core/learn/types.js";
import { adapterTypeOf, engineNumerics } from "../core/run/numerics.js";
import type { RunRecord } from "../core/run/records.js";
import { type RunSettings, taskOptionsIn } from "../core/run/settings.js";
import type { PlainOptions } from "../core/task/task.js";
import type { LoopSettings } from "../core/train/parts.js";
import { UsageError } from "../core/util/errors.js";
import type { ModelShape } from "../engine/models.js";
import { bringCloser } from "../guards/closer.js";
import { farMismatch, mismatchLimit } from "../guards/mismatch.js";
import { rewardNamed } from "../judge/reward/registry.js";
import { tornLayer } from "../machine/architectures.js";
import { checkContext } from "../machine/models/header.js";
import { givenForTask } from "../scenarios/task-options.js";
import { type Preset, presets } from "./presets.js";

export interface SettingsSources {
  /** The given options, without defaults. */
  readonly given: GivenOptions;
  /** The recorded run, if it exists. */
  readonly recorded: RunRecord | undefined;
  readonly model: Pick<ModelShape, "parameters" | "trainedContext" | "architecture"> & { readonly reference: string };
  /** The task's options. */
  readonly set?: PlainOptions;
  /** Steps of one pass over the train split, for presets that count in passes. */
  readonly stepsPerEpoch: (groupsPerStep: number) => number;
}

/**
 * @throws UsageError for options that cannot be trained with
 */
export function resolveSettings({ given, recorded, model, set = {}, stepsPerEpoch }: SettingsSources): RunSettings {
  const loss = (given.loss ?? recorded?.options.loss ?? options.loss.default) as ObjectiveName;
  const objective = objectiveOf(loss);
  const preset = presetOf(given, loss);
  const size = sizedDefaults(model.parameters);
  const derived: Record<string, unknown> = {
    model: model.reference,
    temperature: 1,
    context: Math.min(CONTEXT, model.trainedContext),
    advantages: objective.advantages,
    clipLow: objective.clipLow ?? undefined,
    clipHigh: objective.clipHigh,
  };
  // Nor with the rate for the model's size.
  if (given.learningRate !== undefined) derived.finalLearningRate = given.learningRate;

  const layers: readonly Record<string, unknown>[] = [
    given,
    // A given preset is not ignored: on a run begun otherwise it is refused.
    preset as Record<string, unknown>,
    begunWith(recorded, loss),
    derived,
    size,
  ];
  const found = (name: string): unknown => layers.find((layer) => layer[name] !== undefined)?.[name];
  derived.accuracy = rewardNamed(String(found("reward") ?? options.reward.default)).accuracy;
  const settings = Object.fromEntries(
    keptOptions().map((name) => [name, found(name) ?? options[name].default]),
  ) as RunSettings;
  const steps =
    given.steps ??
    recorded?.options.steps ??
    preset.steps ??
    (preset.passes ? preset.passes * stepsPerEpoch(settings.groupsPerStep) : size.steps);
  const resolved = { ...settings, set, steps: steps as number };
  checkSettings(resolved, model);
  return resolved;
}

/** A given rate is not combined with the preset's final rate, nor a given loss with the bounds of the preset's loss. */
function presetOf(given: GivenOptions, loss: ObjectiveName): Preset {
  if (given.preset === undefined) return {};
  const { finalLearningRate, clipLow, clipHigh, ...preset } = presets[given.preset as keyof typeof presets];
  return {
    ...preset,
    ...(given.learningRate !== undefined || finalLearningRate === undefined ? {} : { finalLearningRate }),
    ...(loss === options.loss.default ? { clipLow, clipHigh } : {}),
  };
}

/** Whether an option is given that the run was begun without, or with another value. */
export function asksForAnother(recorded: RunRecord, given: GivenOptions): boolean {
  const loss = (given.loss ?? options.loss.default) as ObjectiveName;
  const asked: GivenOptions = { ...presetOf(given, loss), ...given };
  const differs = (value: unknown, before: unknown) =>
    value !== undefined && JSON.stringify(value) !== JSON.stringify(before);
  const set = taskOptionsIn(recorded);
  return (
    given.fork !== undefined ||
    [...keptOptions("identity"), "model" as const, "task" as const].some((name) =>
      differs(asked[name], recorded.options[name]),
    ) ||
    Object.entries(givenForTask(given)).some(([name, value]) => differs(value, set[name]))
  );
}

/** The recorded settings. With another loss than now, which is refused after the first step, without its bounds. */
function begunWith(recorded: RunRecord | undefined, loss: ObjectiveName): RunRecord["options"] {
  if (!recorded) return {};
  if ((recorded.options.loss ?? options.loss.default) === loss) return recorded.options;
  const { advantages: _, clipLow: __, clipHigh: ___, ...others } = recorded.options;
  return others;
}

function checkSettings(settings: RunSettings, { trainedContext, architecture }: SettingsSources["model"]): void {
  if (settings.temperature === 0) {
    throw new UsageError("--temperature 0: rollouts of a group would all be the same, and only differences teach");
  }
  if (settings.groupSize === 1) {
    throw new UsageError("--group-size 1: a rollout is compared with others of its scenario; give at least 2");
  }
  if (settings.minibatches > settings.groupsPerStep) {
    throw new UsageError(
      `--minibatches ${settings.minibatches}: a step has only ${settings.groupsPerStep} groups to deal (--groups-per-step), and none is split`,
    );
  }
  if (settings.clipLow !== undefined && objectiveOf(settings.loss).clipLow === null) {
    throw new UsageError(`--clip-low ${settings.clipLow}: ${settings.loss} has no lower bound; leave it out`);
  }
  if (settings.loraAlpha === 0) {
    throw new UsageError("--lora-alpha 0: the adapter would change nothing; give a number above 0");
  }
  const unknown = settings.loraTargets.find((name) => !LINEAR_LAYERS.includes(name));
  if (unknown !== undefined) {
    throw new UsageError(`--lora-targets ${unknown}: an adapter can be put on ${LINEAR_LAYERS.join(", ")}`);
  }
  const torn = tornLayer(architecture, settings.loraTargets);
  if (torn !== undefined) {
    throw new UsageError(`--lora-targets: ${torn.join(", ")} are one layer of this model; name all of them, or none`);
  }
  checkContext(settings.context, trainedContext);
}

/** The model a run is trained from: given, recorded, or the default. */
export const modelOf = (given: GivenOptions, recorded: unknown) => (given.model ?? recorded ?? DEFAULT_MODEL) as string;

/**
 * The settings that the steps of a run use.
 * @param apart see LoopSettings
 */
export function loopSettings(
  settings: RunSettings,
  config: Pick<Config, "maxMismatch" | "hfWeights">,
  engine: PolicyEngine["info"],
  apart: boolean,
): LoopSettings {
  const hfWeights = config.hfWeights !== undefined;
  return {
    ...settings,
    schedule: settings,
    apart,
    // Whoever has the rewards knows the floor of their spread.
    advantages: { estimator: settings.advantages, stdFloor: settings.stdFloor, spreadFloor: 0 },
    maxMismatch: config.maxMismatch,
    adapterType: adapterTypeOf(engine.compute.adapters),
    expectedMismatch: mismatchLimit(engine.weightType, engine.compute),
    farMismatch: farMismatch(engine.weightType, engine.compute),
    numerics: { engine: engineNumerics(engine), hfWeights: hfWeights },
    closer: bringCloser({
      weightType: engine.weightType,
      cuda: engine.compute.backend === "cuda",
      hfWeights,
      model: settings.model,
    }),
  };
}
