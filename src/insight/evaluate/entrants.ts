/** The players: checkpoints of runs, and those of --versus. Everything is read, and nothing loaded. */
import { cpSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Config, GivenOptions, OptionOf } from "../../core/config/config.js";
import { chatOptions, chatSettings } from "../../core/rollout/conversation.js";
import type { ApiSettings } from "../../core/rollout/player.js";
import { ownerOf } from "../../core/run/lock.js";
import type { Adapter } from "../../core/run/records.js";
import { type RunSettings, settingsOf } from "../../core/run/settings.js";
import { UsageError } from "../../core/util/errors.js";
import { readReference } from "../../machine/models/reference.js";
import { type OpenCheckpoints, openCheckpoints } from "../../machine/runs/checkpoint-choice.js";
import { findRun, namedRun } from "../../machine/runs/place.js";
import { type ChatServer, checkChatUrl, keyFor } from "../../serve/openai/server.js";
import { checkpointTitle } from "../report/eval-report.js";
import type { Contestant } from "../report/matrix.js";

export type EvalConfig = Pick<Config, OptionOf<"eval">>;

/** Chat template settings of the engine's model. */
export type Chat = ReturnType<typeof chatSettings>;

/** A model of the engine, with a run's adapter or without one. */
export interface EngineEntrant extends Contestant {
  readonly kind: "checkpoint" | "model";
  readonly weights: Config["weights"];
  readonly chat: Chat;
  readonly adapter: Adapter | null;
  /** Fingerprint of the model's file that the adapter fits; null where any fits. */
  readonly fingerprint: string | null;
  /** Highest mean distance between engine and learner in any step of the run. */
  readonly highestMismatch: number;
}

export interface ApiEntrant extends Contestant {
  readonly kind: "api";
  readonly settings: ApiSettings;
}

export type Entrant = EngineEntrant | ApiEntrant | (Contestant & { readonly kind: "expert" });

export interface Entrants {
  readonly entrants: readonly Entrant[];
  /** The run whose settings apply to the evaluation: that of the first checkpoint. */
  readonly run: OpenCheckpoints | null;
  /** All runs whose checkpoints are compared. */
  readonly runs: readonly OpenCheckpoints[];
}

const CHECKPOINT_OF_RUN = /^(.+)@(latest|best|base|\d+)$/;

type ChatGiven = Pick<RunSettings, (typeof chatOptions)[number]>;

/** A run's own chat template settings; given options apply to every player. */
export function chatOfRun(
  settings: Partial<ChatGiven>,
  given: GivenOptions,
  config: Parameters<typeof chatSettings>[0],
): Chat {
  const own = Object.fromEntries(
    chatOptions.flatMap((name) =>
      settings[name] === undefined || given[name] !== undefined ? [] : [[name, settings[name]]],
    ),
  );
  return chatSettings({ ...config, ...own });
}

/** Of a run that goes on in another process, which deletes older checkpoints before their turn comes, a copy. */
function kept(run: string, { path, sha256 }: Adapter, copies: string): Adapter {
  if (ownerOf(run) === undefined) return { path, sha256 };
  const copy = join(copies, sha256);
  cpSync(dirname(path), copy, { recursive: true });
  return { path: join(copy, basename(path)), sha256 };
}

async function checkpointsOf(config: EvalConfig, given: GivenOptions, copies: string): Promise<Entrants> {
  const names = config.checkpoint ?? ["latest"];
  const opened: OpenCheckpoints[] = [];
  const entrants: EngineEntrant[] = [];
  for (const name of names) {
    const [, word, checkpoint = name] = CHECKPOINT_OF_RUN.exec(name) ?? [];
    const place = word === undefined ? findRun(config, { trained: true, given }) : namedRun(config, word);
    const known = opened.find(({ folder }) => folder === place.folder) ?? opened[0];
    const run = await openCheckpoints(place, [checkpoint]);
    if (known && known.record.contents.task !== run.record.contents.task) {
      throw new UsageError(
        `--checkpoint ${name}: the run ${run.name} was trained on the task ${run.record.contents.task}, ${known.name} on ${known.record.contents.task}; only players of one task can be compared`,
      );
    }
    opened.push(run);
    const settings = settingsOf(run.record);
    const { step, adapter } = run.chosen[0] as (typeof run.chosen)[number];
    const first = opened[0]?.folder === run.folder;
    entrants.push({
      name,
      kind: "checkpoint",
      title: checkpointTitle(name, step),
      step,
      // The model's file may have moved; --model then gives the one of the first run.
      of: first && config.model !== undefined ? config.model : settings.model,
      weights: first && given.weights !== undefined ? config.weights : settings.weights,
      chat: chatOfRun(settings, given, config),
      adapter: adapter && kept(run.folder, adapter, copies),
      fingerprint: run.record.contents.model ?? null,
      highestMismatch: run.highestMismatch,
    });
  }
  return { entrants, run: opened[0] ?? null, runs: opened };
}

const NAMED = /^([\w.-]+)=(.+)$/;
const API = /^(.+?)@(https?:.*)$/i;

function entrantOf(word: string, config: EvalConfig, given: GivenOptions): Entrant {
  const [, name, what = word] = NAMED.exec(word) ?? [];
  const about = (kind: Contestant["kind"], usual: string, of: string) => ({
    name: name ?? usual,
    title: name ?? usual,
    step: null,
    kind,
    of,
  });
  if (what === "expert") return { ...about("expert", what, what), kind: "expert" };
  const [, model, url] = API.exec(what) ?? [];
  if (model !== undefined && url !== undefined) {
    checkChatUrl("player", url, `--versus ${model}@`);
    const settings: ApiSettings = {
      url,
      model,
      key: keyFor(url, config.playerKey),
      temperature: given.temperature === undefined ? undefined : config.temperature,
      maxTokens: given.maxTokens === undefined ? undefined : config.maxTokens,
    };
    return { ...about("api", model, url), kind: "api", settings };
  }
  readReference(what, config.weights ?? "f16", "--versus");
  return {
    ...about("model", what, what),
    kind: "model",
    weights: config.weights,
    chat: chatSettings(config),
    adapter: null,
    fingerprint: null,
    highestMismatch: 0,
  };
}

/** One key belongs to one server. */
function checkKey(servers: readonly ChatServer[], given: string | undefined): void {
  if (given === undefined) return;
  const origins = [...new Set(servers.map(({ url }) => new URL(url).origin))];
  if (origins.length > 1) {
    throw new UsageError(
      `--player-key would go to ${origins.join(" and ")}; evaluate with one of these servers at a time`,
    );
  }
}

/**
 * Checkpoints in the order of --checkpoint, then the others in that of --versus.
 *
 * @param copies an empty folder, for checkpoints that would not stay
 * @throws UsageError for unknown names, for two columns with one name, and for runs of different tasks
 */
export async function findEntrants(config: EvalConfig, given: GivenOptions, copies: string): Promise<Entrants> {
  const { versus = [], checkpoint, run, project } = config;
  // With --versus and no run given, no run is meant.
  const withRun = versus.length === 0 || checkpoint !== undefined || run !== undefined || project !== undefined;
  if (!withRun) {
    const ofRun = (["model", "fresh"] as const).find((name) => given[name]);
    if (ofRun) throw new UsageError(`--${ofRun} is for checkpoints of a run; give --checkpoint too, or leave it out`);
  }
  const others = versus.map((word) => entrantOf(word, config, given));
  checkKey(
    others.flatMap((one) => (one.kind === "api" ? [one.settings] : [])),
    config.playerKey,
  );
  const found: Entrants = withRun ? await checkpointsOf(config, given, copies) : { entrants: [], run: null, runs: [] };
  const entrants = [...found.entrants, ...others];
  const twice = entrants.find(({ name }, i) => entrants.findIndex((one) => one.name === name) < i);
  if (twice) {
    throw new UsageError(
      `${twice.name} is there twice; leave one out, or call one otherwise: --versus NAME=${twice.name}`,
    );
  }
  return { ...found, entrants };
}
