/** `yarn eval` without its words: plays one set of scenarios with each of several checkpoints of a run. */
import { createWriteStream, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { finished } from "node:stream/promises";
import type { Config, GivenOptions, OptionName } from "../config.js";
import { type EngineOptions, loadEngine, modelFile } from "../engine/index.js";
import { type Evaluation, evaluate } from "../report/evaluation.js";
import type { Trajectory } from "../rollout/index.js";
import { loadTask, scenariosOf } from "../task/load.js";
import { HoneError, UsageError } from "../util/errors.js";
import { openCheckpoints } from "./checkpoint-choice.js";
import { EnginePolicy } from "./engine-policy.js";
import { modelFingerprint, withAbsolutePaths } from "./place.js";
import { chooseScenarios } from "./play.js";
import { limitsOf, playingOptions } from "./prepare.js";
import { scenariosFingerprint, validationScenarios } from "./scenarios.js";
import type { RunSettings } from "./settings.js";

/** Settings of the run that an evaluation may change. */
const changeable = [
  "model",
  "task",
  "db",
  "seed",
  "temperature",
  "context",
  "maxTurns",
  "maxTokens",
  "onToolError",
  "rank",
] as const;

export const evalOptions = [
  "home",
  "project",
  "run",
  "checkpoint",
  "fresh",
  "split",
  "n",
  "out",
  ...changeable,
  ...playingOptions,
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

const CONCURRENCY = 16;

/** @returns one evaluation for each checkpoint that was asked for, in that order */
export async function evaluateRun(
  config: EvalConfig,
  given: GivenOptions,
  { signal, view }: { signal: AbortSignal; view: EvalView },
): Promise<{ run: string; evaluations: CheckpointEvaluation[] }> {
  const { name, folder, record, chosen } = await openCheckpoints(config, config.checkpoint ?? ["latest"]);
  const absolute = withAbsolutePaths(given);
  const changes = Object.fromEntries(
    changeable.flatMap((option) => (absolute[option] === undefined ? [] : [[option, absolute[option]]])),
  );
  const settings = { ...(record.options as unknown as RunSettings), ...changes };
  const model = modelFile(settings.model);
  if (modelFingerprint(model) !== record.contents.model) {
    throw new UsageError(
      `${model} is not the model that the run ${folder} was trained from; give that one with --model`,
    );
  }
  const task = await loadTask(settings.task);
  const taskOptions = { home: config.home, db: settings.db, rank: settings.rank };
  const { split = "test", n } = config;
  const choice = { split, n, scenario: undefined, seed: settings.seed };
  const all = await scenariosOf(task, taskOptions);
  if (config.fresh && scenariosFingerprint(all) !== record.contents.scenarios) {
    throw new UsageError(`--fresh: these are not the scenarios that ${name} was trained on: all of them are fresh`);
  }
  const known = new Set(config.fresh ? validationScenarios(all, record.options as unknown as RunSettings) : []);
  const scenarios = chooseScenarios(
    all.filter((scenario) => !known.has(scenario)),
    choice,
  );

  const concurrency = Math.min(config.concurrency ?? CONCURRENCY, scenarios.length);
  const engineOptions: EngineOptions = {
    model,
    gpu: config.gpu === "off" ? false : config.gpu,
    sequences: concurrency,
    contextPerSequence: settings.context,
    ...(config.threads === undefined ? {} : { threads: config.threads }),
  };
  const file = config.out === undefined ? undefined : openFile(config.out);
  const engine = await loadEngine(engineOptions);
  try {
    const policy = new EnginePolicy(engine, {
      task: settings.task,
      taskOptions,
      engine: engineOptions,
      limits: limitsOf(settings, config),
      temperature: settings.temperature,
      concurrency,
      workers: config.workers,
      maxExceptions: config.maxExceptions,
      releaseWeights: false,
      onFailure: ({ id, error }) => view.say(`rollout ${id} failed: ${error}`),
    });
    const evaluations: CheckpointEvaluation[] = [];
    for (const { checkpoint, step, adapter } of chosen) {
      const before = evaluations.find((one) => one.step === step);
      if (before) {
        evaluations.push({ ...before, checkpoint, seconds: 0 });
        continue;
      }
      const started = performance.now();
      await policy.use(adapter);
      view.begin(checkpoint, scenarios.length);
      const { groups, failures, interrupted } = await policy.play({
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
      });
      if (interrupted) throw new HoneError(`interrupted while ${checkpoint} was evaluated`);
      const figures = evaluate(groups.flat(), failures.length);
      evaluations.push({ checkpoint, step, ...figures, seconds: (performance.now() - started) / 1000 });
    }
    return { run: name, evaluations };
  } finally {
    await engine.close();
    if (file) {
      file.end();
      await finished(file);
    }
  }
}

function openFile(path: string) {
  mkdirSync(dirname(path), { recursive: true });
  return createWriteStream(path);
}
