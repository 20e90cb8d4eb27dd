/** Options that choose who plays, and who that is. */

import type { Config, LibraryOption } from "../../core/config/config.js";
import type { PolicyEngine } from "../../core/engine/engine.js";
import type { PlayerSpec } from "../../core/rollout/player.js";

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
