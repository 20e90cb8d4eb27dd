/** `yarn eval` without its words: plays one set of scenarios with each of several checkpoints of a run. */
import { createWriteStream, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { finished } from "node:stream/promises";
import { type Config, type GivenOptions, type OptionName, ROLLOUTS_AT_ONCE } from "../config/index.js";
import { takeDevice } from "../device/index.js";
import { engineOptions, modelFingerprint } from "../engine/index.js";
import { openVerdictFile } from "../judge/index.js";
import { prepareMachine } from "../learn/index.js";
import { linesTo, modelOptions, resolveModel } from "../models/index.js";
import { chooseScenarios, loadFitting } from "../play/index.js";
import { engineText } from "../report/index.js";
import {
  type GradeRollout,
  judgeAccessOptions,
  judgeOptions,
  openJudge,
  requireClaim,
  rewardNamed,
  VERDICTS_FILE,
} from "../reward/index.js";
import { chatOptions, chatSettings, type Trajectory } from "../rollout/index.js";
import { type Evaluation, openCheckpoints, type RunSettings, settingsOf } from "../run/index.js";
import {
  type AnyTask,
  givenForTask,
  loadTask,
  type PlainOptions,
  recordedForTask,
  resolveTaskOptions,
  scenariosOf,
  taskOptionNames,
} from "../tasks/index.js";
import { HoneError, UsageError } from "../util/index.js";
import { EnginePolicy } from "./engine-policy.js";
import { checkProbe, gapLimit } from "./gap.js";
import { gradeOwn, playGraded } from "./grading.js";
import { limitsOf, playingOptions } from "./prepare.js";
import { scenariosFingerprint, validationScenarios } from "./sampler.js";
import { withAbsolutePaths } from "./settings.js";

/** Settings of the run that an evaluation may change. */
const changeable = [
  "model",
  "weights",
  "task",
  "seed",
  "temperature",
  "context",
  "maxTurns",
  "maxTokens",
  "onToolError",
  ...chatOptions,
  "accuracy",
  "judgeUrl",
  ...judgeOptions,
] as const;

export const evalOptions = [
  ...taskOptionNames,
  "project",
  "run",
  "checkpoint",
  "fresh",
  "split",
  "n",
  "out",
  ...changeable,
  ...modelOptions.filter((name) => name !== "weights"),
  "python",
  ...playingOptions,
  ...judgeAccessOptions,
] as const satisfies readonly OptionName[];

export type EvalConfig = Pick<Config, (typeof evalOptions)[number]>;

export interface CheckpointEvaluation extends Evaluation {
  checkpoint: string;
  /** null is the base model. */
  step: number | null;
  /** 0 for a checkpoint that was asked for under two names: it is played once. */
  seconds: number;
}

export interface EvalView {
  begin(checkpoint: string, total: number): void;
  rollout(trajectory: Trajectory): void;
  say(text: string): void;
}

/** @returns one evaluation for each checkpoint that was asked for, in that order */
export async function evaluateRun(
  config: EvalConfig,
  given: GivenOptions,
  { signal, view }: { signal: AbortSignal; view: EvalView },
): Promise<{ run: string; evaluations: CheckpointEvaluation[] }> {
  const { name, folder, record, chosen, highestGap } = await openCheckpoints(config, config.checkpoint ?? ["latest"]);
  const absolute = withAbsolutePaths(given);
  const changes = Object.fromEntries(
    changeable.flatMap((option) => (absolute[option] === undefined ? [] : [[option, absolute[option]]])),
  );
  const asked = { ...settingsOf(record), ...changes };
  takeDevice(config);
  const from = { ...config, weights: asked.weights };
  const model = await resolveModel(asked.model, from, linesTo(view.say, signal));
  if (modelFingerprint(model) !== record.contents.model) {
    throw new UsageError(
      `${model} is not the model that the run ${folder} was trained from; give that one with --model`,
    );
  }
  const task = await loadTask(asked.task);
  const settings = { ...asked, set: resolveTaskOptions(task, recordedForTask(task, asked.set), givenForTask(given)) };
  const taskOptions = { ...settings.set, home: config.home, seed: settings.seed };
  const { split = "test", n } = config;
  const choice = { split, n, scenario: undefined, seed: settings.seed };
  const all = await scenariosOf(task, taskOptions);
  if (config.fresh && scenariosFingerprint(all) !== record.contents.scenarios) {
    throw new UsageError(`--fresh: these are not the scenarios that ${name} was trained on: all of them are fresh`);
  }
  const known = new Set(config.fresh ? validationScenarios(all, settingsOf(record)) : []);
  const scenarios = chooseScenarios(
    all.filter((scenario) => !known.has(scenario)),
    choice,
  );

  const concurrency = Math.min(config.concurrency ?? ROLLOUTS_AT_ONCE.cpu, scenarios.length);
  const wanted = engineOptions(config, { model, sequences: concurrency, contextPerSequence: settings.context });
  const judged =
    settings.accuracy === "judge"
      ? await openGrading(settings, config, task, taskOptions, { signal, view })
      : undefined;
  const say = (line: string) => view.say(line);
  await prepareMachine(config, say);
  const { engine, options } = await loadFitting(wanted, say);
  const file = config.out === undefined ? undefined : openFile(config.out);
  try {
    say(engineText(engine.info));
    const policy = new EnginePolicy(engine, {
      task: settings.task,
      taskOptions,
      engine: options,
      limits: limitsOf(settings, config),
      temperature: settings.temperature,
      chat: chatSettings(settings),
      concurrency: options.sequences,
      workers: config.workers,
      maxExceptions: config.maxExceptions,
      releaseWeights: false,
      onFailure: ({ id, error }) => say(`rollout ${id} failed: ${error}`),
      say,
    });
    const grade = judged?.grade ?? gradeOwn;
    const evaluations: CheckpointEvaluation[] = [];
    for (const { checkpoint, step, adapter } of chosen) {
      const before = evaluations.find((one) => one.step === step);
      if (before) {
        evaluations.push({ ...before, checkpoint, seconds: 0 });
        continue;
      }
      const started = performance.now();
      const limit = Math.max(gapLimit(engine.info.weightType), highestGap);
      await policy.use(adapter);
      checkProbe(await policy.probe(), limit, `checkpoint ${checkpoint}`, "nothing was played with it");
      view.begin(checkpoint, scenarios.length);
      const figures = await playGraded(signal, grade, async (signal, onGroup) => {
        const played = await policy.play({
          // The same draws for every checkpoint: they differ by their policy alone.
          run: `${settings.seed}/eval`,
          step: 0,
          scenarios,
          group: 1,
          have: [],
          signal,
          onTrajectory: (trajectory) => {
            file?.write(`${JSON.stringify({ checkpoint, ...trajectory })}\n`);
            view.rollout(trajectory);
          },
          onGroup,
        });
        if (played.interrupted) throw new HoneError(`interrupted while ${checkpoint} was evaluated`);
        return played;
      });
      evaluations.push({ checkpoint, step, ...figures, seconds: (performance.now() - started) / 1000 });
    }
    return { run: name, evaluations };
  } finally {
    await engine.close();
    await judged?.close();
    if (file) {
      file.end();
      await finished(file);
    }
  }
}

/** A judge of the answers, as the run's reward would have it; its verdicts are kept in the home folder. */
async function openGrading(
  settings: RunSettings,
  config: EvalConfig,
  task: AnyTask,
  taskOptions: PlainOptions,
  { signal, view }: { signal: AbortSignal; view: EvalView },
): Promise<{ grade: GradeRollout; close(): Promise<void> }> {
  requireClaim(task, "--accuracy judge");
  const { cache, close } = openVerdictFile(join(config.home, VERDICTS_FILE));
  const judge = openJudge({ ...config, ...settings }, "--accuracy judge", cache, undefined, (text) => view.say(text));
  const world = await task.open(taskOptions);
  const context = { judge, signal, onSpent: () => undefined, task, world };
  return {
    grade: rewardNamed(settings.reward).grade(context),
    close: async () => {
      await task.close(world);
      close();
    },
  };
}

function openFile(path: string) {
  mkdirSync(dirname(path), { recursive: true });
  return createWriteStream(path);
}
