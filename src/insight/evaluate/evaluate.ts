/** The work of `yarn eval` without its output: plays one set of scenarios with each player, one engine at a time. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { GivenOptions } from "../../core/config/config.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { HoneError, messageOf, UsageError } from "../../core/util/errors.js";
import { LineFile, removedAfter } from "../../core/util/files.js";
import { toJson } from "../../core/util/json.js";
import { takeDevice } from "../../engine/device/device.js";
import { modelFingerprint } from "../../engine/models.js";
import { readPrices } from "../../judge/prices.js";
import { conversingModel } from "../../machine/models/header.js";
import { resolveModel } from "../../machine/models/resolve.js";
import { checkEngineChoice } from "../../machine/play/engine-choice.js";
import { prepareMachine } from "../../machine/python/machine.js";
import { type Column, type Contestant, type Matrix, pairsOf, type Result } from "../report/matrix.js";
import { conditionsOf, openGrading } from "./conditions.js";
import { type EngineEntrant, type Entrant, type EvalConfig, findEntrants } from "./entrants.js";
import { type OnEngine, openEngine, playElsewhere, type Stage } from "./play-entrant.js";
import { checkReachable } from "./reach.js";

export interface EvalView {
  begin(title: string, total: number): void;
  rollout(trajectory: Trajectory, name: string): void;
  log(text: string): void;
}

const onEngine = (entrant: Entrant): entrant is EngineEntrant => "adapter" in entrant;

/**
 * A column for each player. A player that fails loses its own column only; errors that can be known beforehand are
 * reported before anything is played.
 *
 * @throws HoneError when no player has a result
 */
export async function evaluatePlayers(
  config: EvalConfig,
  given: GivenOptions,
  { signal, view }: { signal: AbortSignal; view: EvalView },
) {
  const copies = mkdtempSync(join(tmpdir(), "hone-eval-"));
  using _copies = removedAfter(copies);
  const found = await findEntrants(config, given, copies);
  const { entrants, run } = found;
  const prices = config.prices === undefined ? {} : readPrices(config.prices);
  const log = (text: string) => view.log(text);
  const conditions = await conditionsOf(config, given, found, { log, signal });
  for (const one of entrants) if (one.kind === "api") await checkReachable(one.name, one.settings, signal);
  const models = await resolveModels(config, entrants, signal, log);

  const grading = await openGrading(conditions, config, signal, log);
  const file = config.out === undefined ? undefined : new LineFile(config.out, `--out ${config.out}`);
  const results = new Map<Entrant, Result | Error>();
  const stage: Stage = {
    config,
    conditions,
    grading,
    prices,
    signal,
    log,
    begin: ({ title }, scenarios) => view.begin(title, scenarios),
    rollout: ({ name }, trajectory) => {
      file?.add(toJson({ checkpoint: name, ...trajectory }));
      view.rollout(trajectory, name);
    },
  };
  try {
    const cuda = models.length > 0 && (await prepareMachine(config, log));
    for (const model of models) await playOnEngine(stage, model, cuda, results);
    for (const entrant of entrants) {
      if (!onEngine(entrant)) results.set(entrant, await caught(stage, entrant, () => playElsewhere(stage, entrant)));
    }
  } finally {
    await grading.close();
    file?.end(results.size > 0);
  }
  // The run is the one whose settings were used; null without one.
  return { run: run?.name ?? null, matrix: matrixOf(config, conditions, entrants, results) };
}

/** Fetched and checked before anything is loaded. */
async function resolveModels(
  config: EvalConfig,
  entrants: readonly Entrant[],
  signal: AbortSignal,
  log: (text: string) => void,
): Promise<OnEngine[]> {
  const playing = entrants.filter(onEngine);
  checkEngineChoice(config);
  if (playing.length > 0) takeDevice(config);
  const models: OnEngine[] = [];
  for (const entrant of playing) {
    const from = { ...config, weights: entrant.weights };
    const file = await resolveModel(entrant.of, from, { log, signal });
    const { fingerprint, name } = entrant;
    if (fingerprint !== null && modelFingerprint(file) !== fingerprint) {
      throw new UsageError(
        `${file} is not the model that the run of checkpoint ${name} was trained from; give that one with --model`,
      );
    }
    const known = models.find((model) => model.file === file);
    if (known) known.entrants.push(entrant);
    else models.push({ file, context: (await conversingModel(file)).trainedContext, entrants: [entrant] });
  }
  return models;
}

/** An error removes the player's column, and not those of players that have finished. */
async function caught(stage: Stage, { title }: Contestant, play: () => Promise<Result>): Promise<Result | Error> {
  if (stage.signal.aborted) return new HoneError("interrupted");
  try {
    return await play();
  } catch (error) {
    const failure = stage.signal.aborted
      ? new HoneError(`interrupted while ${title} was evaluated`)
      : error instanceof Error
        ? error
        : new Error(messageOf(error));
    stage.log(`${title} broke down: ${failure.message}`);
    return failure;
  }
}

async function playOnEngine(stage: Stage, model: OnEngine, cuda: boolean, results: Map<Entrant, Result | Error>) {
  const { entrants } = model;
  let engine: Awaited<ReturnType<typeof openEngine>> | undefined;
  try {
    for (const entrant of entrants) {
      const same = entrants.find((one) => results.has(one) && samePolicy(one, entrant));
      const before = same && results.get(same);
      if (before !== undefined && !(before instanceof Error)) {
        results.set(entrant, { ...before, effort: { ...before.effort, seconds: 0 } });
        continue;
      }
      const outcome = await caught(stage, entrant, async () => {
        engine ??= await openEngine(stage, model, cuda);
        return engine.play(entrant);
      });
      results.set(entrant, outcome);
    }
  } finally {
    await engine?.close();
  }
}

/** A checkpoint may be named several times: it is played once. */
const samePolicy = (a: EngineEntrant, b: EngineEntrant) =>
  a.adapter?.sha256 === b.adapter?.sha256 && JSON.stringify(a.chat) === JSON.stringify(b.chat);

function matrixOf(
  config: EvalConfig,
  { settings, task, scenarios }: Stage["conditions"],
  entrants: readonly Entrant[],
  results: ReadonlyMap<Entrant, Result | Error>,
): Matrix {
  const columns = entrants.map((entrant): Column => {
    const { name, kind, title, step, of } = entrant;
    const result = results.get(entrant) as Result | Error;
    const outcome = result instanceof Error ? { result: null, problem: result.message } : { result, problem: null };
    return { name, kind, title, step, of, ...outcome };
  });
  if (columns.every(({ result }) => result === null)) throw [...results.values()][0];
  return {
    task: task.name,
    split: config.split ?? "test",
    seed: settings.seed,
    scenarios: scenarios.map(({ id, question, kind }) => ({ id, question, ...(kind === undefined ? {} : { kind }) })),
    columns,
    pairs: pairsOf(columns, settings.seed),
  };
}
