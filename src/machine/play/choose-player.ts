/** Creates a player from options: loads the engine with its adapter, or connects to an API, or takes the expert. */

import { flagOf, options } from "../../core/config/config.js";
import { ROLLOUTS_AT_ONCE } from "../../core/config/defaults.js";
import { chatOptions } from "../../core/rollout/conversation.js";
import { UsageError } from "../../core/util/errors.js";
import { checkChatUrl, keyFor } from "../../serve/openai/server.js";

import type { OpenPlayer, PlayerConfig } from "./player-config.js";

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
  const named = [expert && "--expert", playerUrl && "--player-url", config.model && "--model"].filter(Boolean);
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

  const { openEnginePlayer } = await import("./engine-player.js");
  return await openEnginePlayer(config, config.model, log, signal);
}
