/** The model that hone runs as a player: found, loaded, with its adapter. */
import { existsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { chatOf } from "../../chat/chat.js";
import { CONTEXT, ROLLOUTS_AT_ONCE } from "../../core/config/defaults.js";
import { chatSettings } from "../../core/rollout/conversation.js";
import type { PlayerSpec } from "../../core/rollout/player.js";
import { UsageError } from "../../core/util/errors.js";
import { sha256OfFile } from "../../core/util/files.js";
import { takeDevice } from "../../engine/device/device.js";
import { type ModelShape, modelShape } from "../../engine/models.js";
import { engineText } from "../compute.js";
import { adopted, checkBelongs, type PeftAdapter, readPeft } from "../models/adapter.js";
import { checkContext, conversingModel } from "../models/header.js";
import type { ModelIo } from "../models/io.js";
import { resolveModel } from "../models/resolve.js";
import { prepareMachine } from "../python/machine.js";
import { checkEngineChoice } from "./engine-choice.js";
import type { OpenPlayer, PlayerConfig } from "./player-config.js";
import { openPlaying, rankOf } from "./playing-engine.js";

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

/**
 * @param name of the model, as `--model` has it
 * @throws UsageError, HoneError when it cannot be had
 */
export async function openEnginePlayer(
  config: PlayerConfig,
  name: string,
  log: (line: string) => void,
  signal: AbortSignal | undefined,
): Promise<OpenPlayer> {
  const { temperature } = config;
  checkEngineChoice(config);
  takeDevice(config);
  const io = { log, signal };
  const peft = config.adapter === undefined ? undefined : peftIn(config.adapter);
  const inspect = (shape: ModelShape) => peft && checkBelongs(peft, shape, `--adapter ${config.adapter}`);
  const model = await resolveModel(name, config, io, { inspect });
  const { trainedContext } = await conversingModel(model);
  checkContext(config.context, trainedContext);
  const adapter = config.adapter === undefined ? null : await adapterFile(config.adapter, model, config, io);
  const wanted = {
    model,
    sequences: config.concurrency ?? ROLLOUTS_AT_ONCE.cpu,
    contextPerSequence: config.context ?? Math.min(CONTEXT, trainedContext),
    adapterRank: adapter === null ? undefined : rankOf(adapter),
  };
  const cuda = await prepareMachine(config, log);
  const { engine, options } = await openPlaying(config, wanted, cuda, io);
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
