/** Opens the run of a program whose steps it makes itself. */
import { join } from "node:path";
import { givenByProgram, libraryOptions, withDefaults } from "../config/config.js";
import { learnerPlace } from "../device/learner-place.js";
import { decodeThreads } from "../engine/threads.js";
import { checkTrainable, conversingModel } from "../models/header.js";
import { prepareMachine, pythonFor } from "../python-env/machine.js";
import { placeOf } from "../run/place.js";
import { STORE_FILE } from "../run/run.js";
import { RunStore } from "../run/store.js";
import { checkAwake } from "../train/apart.js";
import { contentsOf } from "../train/contents.js";
import { firstCheckpoint, initialAdapter } from "../train/init-adapter.js";
import type { LoopParts } from "../train/parts.js";
import { resolveSettings, withAbsolutePaths } from "../train/settings.js";
import { settleLast, use } from "../train/settle.js";
import { StepClock } from "../train/step-clock.js";
import { UsageError } from "../util/errors.js";
import { beginWithLearner, learnerPython, stepsOf, warnOfRate } from "./begin.js";
import { viewOf } from "./events.js";
import type { Model } from "./model.js";
import type { OpenTask } from "./task.js";
import { type RunOptions, TrainingRun } from "./training-run.js";

/** The learner must know the sampling distribution. */
function refuseTruncation({ topK, topP, minP }: Model["config"]): void {
  const off = { "--top-k": [topK, 0], "--top-p": [topP, 1], "--min-p": [minP, 0] } as const;
  for (const [flag, [given, none]] of Object.entries(off)) {
    if (given === undefined || given === none) continue;
    throw new UsageError(
      `${flag} ${given}: training samples from the model's whole distribution, because the learner must know it; leave it out`,
    );
  }
}

/** See `openRun`. */
export async function beginRunOf(model: Model, task: OpenTask, options: RunOptions): Promise<TrainingRun> {
  const { log = () => undefined, signal, ...values } = options;
  const own = await givenByProgram(values, libraryOptions("run"));
  const { config: played, info, limits } = model;
  refuseTruncation(played);
  const { temperature = 1, onToolError, offForm, toolFormat, templateArg } = played;
  const { maxThinkingTokens } = played;
  const given = withAbsolutePaths({
    ...own,
    ...{ temperature, onToolError, offForm, toolFormat, templateArg, maxThinkingTokens },
    ...{
      model: model.reference,
      weights: played.weights,
      task: task.reference,
      seed: task.options.seed,
      mcp: task.mcp,
    },
    ...{ context: info.contextPerSequence, maxTurns: limits.maxTurns, maxTokens: limits.maxTokens },
  });
  const config = {
    ...withDefaults([...libraryOptions("run"), "task"], { home: task.options.home, ...given }),
    ...machineOf(model),
  };
  const folder = await placeOf({ ...config, model: model.reference });
  const recorded = RunStore.recordIn(join(folder, STORE_FILE));
  const shape = await conversingModel(info.model);
  checkTrainable(shape, info.model, config.hfWeights !== undefined);
  const { seed: _, home: __, ...set } = task.options;
  const settings = resolveSettings({
    given,
    recorded,
    model: { reference: model.reference, ...shape },
    set,
    stepsPerEpoch: () => 1,
  });
  const contents = contentsOf(info.model, task.task, task.scenarios, task.servers);
  const cuda = await prepareMachine(config, log, true);
  const python = await learnerPython(pythonFor(config, cuda, log));
  const fitted = {
    microBatchTokens: settings.microBatchTokens,
    gradientCheckpointing: config.gradientCheckpointing ?? false,
    shape,
  };
  const place = learnerPlace(config.learnerDevice, info.gpu);
  if (place.apart) checkAwake(config);
  const ending = signal ?? new AbortController().signal;
  const initial = initialAdapter(config, settings, shape);
  const starting = { folder, model: info.model, settings, contents, initial };
  const first = await firstCheckpoint(starting, config, { log, signal: ending });
  const begun = await beginWithLearner(
    { folder, settings, contents, task: task.task, fork: initial ? first : config.fork },
    { model: info.model, config, fitted, place, threads: decodeThreads(config.threads), python, log },
  );
  const { run, updater } = begun;
  warnOfRate(run, settings, log);
  const { apart } = place;
  const parts = await stepsOf(begun, { model, task, settings, config, spreadFloor: 0, apart, view: viewOf({ log }) });
  try {
    const loop = { ...parts, ...nothingToPlay, signal: ending };
    const at = await settleLast(loop, new StepClock());
    await use(loop, at);
    // Loads during the first rollouts; `train` awaits prepare() and gets its error.
    updater.prepare(run.checkpointOf(at)).catch(() => undefined);
    return new TrainingRun(model, task, parts, updater);
  } catch (error) {
    await updater.close();
    run.close();
    throw error;
  }
}

/** Placeholders: scenarios and rewards come from the program. */
const nothingToPlay: Pick<LoopParts, "scenarios" | "rewardGroup"> = {
  scenarios: { groupsPerStep: 0, next: () => [], resting: () => 0, ofValidation: () => [] },
  rewardGroup: async () => ({ kind: "rewarded", rewards: [] }),
};

const machineOf = ({ config: { gpu, device, threads } }: Model) => ({ gpu, device, threads });
