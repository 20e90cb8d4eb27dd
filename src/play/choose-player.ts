/** Creates a player from options: loads the engine with its adapter, or connects to an API, or takes the expert. */
import { existsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Config, flagOf, type LibraryOption, options } from "../config/config.js";
import { CONTEXT, ROLLOUTS_AT_ONCE } from "../config/defaults.js";
import { takeDevice } from "../device/device.js";
import type { PolicyEngine } from "../engine/engine.js";
import { type ModelShape, modelShape, trainedContext } from "../engine/models.js";
import { adopted, checkBelongs, type PeftAdapter, readPeft } from "../models/adapter.js";
import { conversingModel } from "../models/header.js";
import { linesTo, type ModelIo } from "../models/io.js";
import { resolveModel } from "../models/resolve.js";
import { checkChatUrl, keyFor } from "../openai/server.js";
import { prepareMachine } from "../python-env/machine.js";
import { engineText } from "../report/compute.js";
import { chatOf, chatOptions, chatSettings } from "../rollout/chat.js";
import type { PlayerSpec } from "../rollout/player.js";
import { UsageError } from "../util/errors.js";
import { sha256OfFile } from "../util/files.js";
import { checkEngineChoice, openPlaying, rankOf, type WantedEngine } from "./playing-engine.js";

/** Options that choose the player and how it plays. */
export type PlayerConfig = Pick<
  Config,
  LibraryOption<"model"> | "model" | "playerUrl" | "playerModel" | "playerKey" | "expert" | "mistakes"
>;

export interface OpenPlayer {
  readonly spec: PlayerSpec;
  /** The engine, if it plays; the caller closes it. */
  readonly engine: PolicyEngine | undefined;
  /** Number of concurrent rollouts. */
  readonly concurrency: number;
}

/** @throws UsageError when there is no such file */
export function existing(file: string, flag: string): string {
  const path = resolve(file);
  if (!existsSync(path)) throw new UsageError(`${flag}: there is no file ${path}`);
  return path;
}

/** Reads a PEFT adapter folder; undefined for a file. */
function peftIn(given: string): PeftAdapter | undefined {
  const path = existing(given, "--adapter");
  return statSync(path).isDirectory() ? readPeft(path, "--adapter") : undefined;
}

/** Converts a PEFT adapter folder to the GGUF file that the engine loads. */
export async function adapterFile(
  given: string,
  model: string,
  config: Pick<PlayerConfig, "home" | "python" | "torchIndex">,
  io: ModelIo,
): Promise<string> {
  const adapter = peftIn(given);
  if (!adapter) return existing(given, "--adapter");
  checkBelongs(adapter, await modelShape(model), `--adapter ${given}`);
  return join(await adopted(adapter, model, config, io), "adapter.gguf");
}

async function playing(config: PlayerConfig, model: string): Promise<Omit<WantedEngine, "adapterRank">> {
  const { context } = config;
  const trained = await trainedContext(model);
  if (context !== undefined && context > trained) {
    throw new UsageError(`--context ${context}: the model was trained with ${trained} tokens; give at most that`);
  }
  return {
    model,
    sequences: config.concurrency ?? ROLLOUTS_AT_ONCE.cpu,
    contextPerSequence: context ?? Math.min(CONTEXT, trained),
  };
}

/** Refuses options of the engine's chat format, which other players do not use. */
function refuseChatOptions(config: PlayerConfig, player: string): void {
  const given = chatOptions.find((name) => config[name] !== options[name].default);
  if (given) throw new UsageError(`${flagOf(given)} is for a model that plays with --model, not for ${player}`);
}

/**
 * @param log receives the engine's devices, and changes of its thread count
 * @throws UsageError when the options choose no player, or name a missing file
 */
export async function openPlayerFor(
  config: PlayerConfig,
  log: (line: string) => void,
  signal?: AbortSignal,
): Promise<OpenPlayer> {
  const { playerUrl, playerModel, playerKey, expert, mistakes, temperature, maxTokens } = config;
  const concurrency = config.concurrency ?? ROLLOUTS_AT_ONCE.cpu;
  const named = [expert ? "--expert" : "", playerUrl ? "--player-url" : "", config.model ? "--model" : ""].filter(
    Boolean,
  );
  if (named.length > 1) throw new UsageError(`${named.join(" and ")} name different players; give one of them`);

  if (expert || playerUrl !== undefined) refuseChatOptions(config, named.join());
  if (expert) return { spec: { kind: "expert", mistakes }, engine: undefined, concurrency };
  if (playerUrl !== undefined) {
    if (playerModel === undefined) throw new UsageError("--player-url needs --player-model: the model's name there");
    checkChatUrl("player", playerUrl);
    const settings = { url: playerUrl, model: playerModel, key: keyFor(playerUrl, playerKey), temperature, maxTokens };
    return { spec: { kind: "api", settings }, engine: undefined, concurrency };
  }
  if (config.model === undefined) throw new UsageError("who plays? give --model, --player-url or --expert");

  checkEngineChoice(config);
  takeDevice(config);
  const lines = linesTo(log, signal);
  const peft = config.adapter === undefined ? undefined : peftIn(config.adapter);
  const inspect = (shape: ModelShape) => peft && checkBelongs(peft, shape, `--adapter ${config.adapter}`);
  const model = await resolveModel(config.model, config, lines, { inspect });
  await conversingModel(model);
  const adapter = config.adapter === undefined ? null : await adapterFile(config.adapter, model, config, lines);
  const wanted = { ...(await playing(config, model)), adapterRank: adapter === null ? undefined : rankOf(adapter) };
  const cuda = await prepareMachine(config, log);
  const { engine, options } = await openPlaying(config, wanted, cuda, { log, signal });
  log(engineText(engine.info));
  const chat = chatSettings(config);
  try {
    // Checked before any worker starts, so that an unsuitable model is reported at once.
    chatOf(engine, chat);
    if (adapter !== null) await engine.useAdapter(adapter);
  } catch (error) {
    await engine.close();
    throw error;
  }
  const { topK, topP, minP } = config;
  const spec: PlayerSpec = {
    kind: "engine",
    engine: options,
    sampling: { temperature: temperature ?? 1, topK, topP, minP },
    chat,
    adapter: adapter === null ? null : await sha256OfFile(adapter),
  };
  return { spec, engine, concurrency: options.sequences };
}
