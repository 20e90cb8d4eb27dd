/**
 * Opens models for serving and chat: a run's checkpoints and base model, or a model alone. An adapter belongs to a
 * context, so each model has its own engine; the weights are shared.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Chat, chatOf } from "../../chat/chat.js";
import { type Config, flagOf, type GivenOptions, type OptionOf } from "../../core/config/config.js";
import { CONTEXT } from "../../core/config/defaults.js";
import type { LocalEngine } from "../../core/engine/engine.js";
import { STORE_FILE } from "../../core/run/run.js";
import { settingsOf } from "../../core/run/settings.js";
import { UsageError } from "../../core/util/errors.js";
import { hone } from "../../core/util/program.js";
import { engineOptions } from "../../engine/engine-options.js";
import { loadFitting } from "../../engine/load-fitting.js";
import { chatOfRun } from "../../insight/evaluate/entrants.js";
import { checkpointTitle } from "../../insight/report/eval-report.js";
import { engineText } from "../../machine/compute.js";
import { checkContext, conversingModel } from "../../machine/models/header.js";
import { isCatalogueName } from "../../machine/models/reference.js";
import { resolveModel } from "../../machine/models/resolve.js";
import { adapterFile } from "../../machine/play/engine-player.js";
import { prepareMachine } from "../../machine/python/machine.js";
import { checkTrainedFrom, type OpenCheckpoints, openCheckpoints } from "../../machine/runs/checkpoint-choice.js";
import { findRuns, namedRun } from "../../machine/runs/place.js";

/** Options that choose the models and the device. */
export type SubjectConfig = Pick<Config, OptionOf<"serve"> & OptionOf<"chat">>;

/** Maximum number of contexts on the same weights. */
const MOST_ENGINES = 2;

export interface OpenModel {
  /** The checkpoints that it is, as they were given, or the model as it was named. */
  readonly names: readonly [string, ...string[]];
  /** Description of the checkpoint, for messages. */
  readonly title: string;
  readonly engine: LocalEngine;
  readonly chat: Chat;
}

export type Subject = Awaited<ReturnType<typeof openSubject>>;

/** Whether a word names a run, as {@link namedRun} reads it. */
function isRun(home: string, project: string | undefined, word: string): boolean {
  if (existsSync(join(word, STORE_FILE))) return true;
  return findRuns(home).some(
    (run) => word === `${run.project}/${run.name}` || (word === run.name && (project ?? run.project) === run.project),
  );
}

/** Resolves the words to a run or a model. */
function readSubject(config: SubjectConfig) {
  const { subject, model, home, project } = config;
  const named = subject !== undefined && isRun(home, project, subject);
  if (subject !== undefined && !named) {
    if (model !== undefined)
      throw new UsageError(`there is no run ${subject} in ${home}; leave it out, or ${flagOf("model")}`);
    const isModel = isCatalogueName(subject) || existsSync(subject) || /[/:]/.test(subject);
    if (!isModel || project !== undefined) {
      const runs = findRuns(home).map((run) => `${run.project}/${run.name}`);
      throw new UsageError(
        `${subject} is neither a run in ${home} (${runs.join(", ") || "there are none"}) nor a model; \`${hone("models")}\` lists models`,
      );
    }
  }
  if (!named && (subject ?? model) !== undefined) return { run: undefined, model: (subject ?? model) as string };
  const refused = (["adapter", "weights"] as const).find((name) => config[name] !== undefined);
  if (refused) {
    const flag = flagOf(refused);
    throw new UsageError(
      `${flag}: a run's checkpoints have their own; leave ${flag} out, or name a model instead of a run`,
    );
  }
  return { run: namedRun({ home, project }, subject, { trained: true }), model };
}

/** The best checkpoint, or the latest if none was validated. */
async function bestOrLatest(run: Parameters<typeof openCheckpoints>[0]): Promise<string> {
  const best = await openCheckpoints(run, ["best"]);
  return best.chosen[0]?.step === null ? "latest" : "best";
}

interface Wanted {
  readonly names: [string, ...string[]];
  readonly title: string;
  readonly adapter: string | null;
}

/** Merges checkpoints with the same adapter into one model with several names. */
function merged(wanted: readonly Wanted[]): Wanted[] {
  const all: Wanted[] = [];
  for (const one of wanted) {
    const known = all.find(({ adapter }) => adapter === one.adapter);
    if (known) known.names.push(...one.names.filter((name) => !known.names.includes(name)));
    else all.push(one);
  }
  if (all.length > MOST_ENGINES) {
    throw new UsageError(
      `${all.map(({ title }) => title).join(", ")}: at most ${MOST_ENGINES} different checkpoints can be there at once`,
    );
  }
  return all;
}

export interface OpenSubjectOptions {
  readonly given: GivenOptions;
  /** Checkpoints of the run; undefined: the best. */
  readonly checkpoints: readonly string[] | undefined;
  /** Whether to open the run's base model as well. */
  readonly withBase?: boolean;
  /** Number of concurrent sequences of each model. */
  readonly sequences: number;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Resolves, checks and loads the models.
 *
 * @throws UsageError when the words name nothing, or more checkpoints than can be loaded at once
 * @throws HoneError when a model cannot be fetched or loaded
 */
export async function openSubject(config: SubjectConfig, options: OpenSubjectOptions) {
  const { given, checkpoints, sequences, log, signal } = options;
  const subject = readSubject(config);
  let opened: OpenCheckpoints | undefined;
  if (subject.run) {
    const names = checkpoints ?? [await bestOrLatest(subject.run)];
    opened = await openCheckpoints(subject.run, options.withBase ? [...names, "base"] : names);
  } else if (checkpoints) {
    throw new UsageError(`${flagOf("checkpoint")} and --compare are for a run; ${subject.model} is a model`);
  }
  const settings = opened ? settingsOf(opened.record) : null;
  const reference = subject.model ?? (settings?.model as string);
  const weights = settings?.weights ?? config.weights;
  const file = await resolveModel(reference, { ...config, weights }, { log, signal });
  if (opened) checkTrainedFrom(file, opened);
  const { trainedContext } = await conversingModel(file);
  checkContext(config.context, trainedContext);
  const alone = config.adapter === undefined ? null : await adapterFile(config.adapter, file, config, { log, signal });
  const wanted = merged(
    opened
      ? opened.chosen.map(({ checkpoint, step, adapter }) => ({
          names: [checkpoint],
          title: `${opened.name}: ${checkpointTitle(checkpoint, step)}`,
          adapter: adapter?.path ?? null,
        }))
      : [{ names: [reference], title: reference, adapter: alone }],
  );
  const chat = chatOfRun(settings ?? {}, given, config);
  await prepareMachine(config, log);
  const contextPerSequence = Math.min(config.context ?? settings?.context ?? CONTEXT, trainedContext);
  const models: OpenModel[] = [];
  const close = async () => {
    for (const { engine } of models.toReversed()) await engine.close();
  };
  try {
    let most = sequences;
    for (const [index, { names, title, adapter }] of wanted.entries()) {
      const name = index === 0 ? "" : names[0];
      // In one lane any sequence can reuse the KV of any other.
      const lane = { model: file, name, lanes: 1, sequences: most, contextPerSequence };
      const { engine, options: loaded } = await loadFitting(engineOptions(config, lane), log);
      most = loaded.sequences;
      models.push({ names, title, engine, chat: chatOf(engine, chat) });
      if (index === 0) log(engineText(engine.info));
      if (adapter !== null) await engine.useAdapter(adapter);
    }
    // A model without a run has no settings.
    return { run: opened?.name, settings, models, close };
  } catch (error) {
    await close();
    throw error;
  }
}
