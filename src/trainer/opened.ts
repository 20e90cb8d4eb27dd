/** What an open run is made of. */
import type { Rewards } from "../core/reward/reward.js";
import type { Guard } from "../core/train/guard.js";
import type { LoopParts } from "../core/train/parts.js";
import type { Dealt } from "../guards/draws.js";
import type { Model } from "./model.js";
import type { RunPlan } from "./plan-run.js";
import type { RunEvents } from "./train-options.js";

/** The parts that make the steps of a run. */
export type Steps = Omit<LoopParts, "scenarios" | "guards" | "rewardGroup" | "signal">;

/** What a run is opened with. */
export interface Opened {
  readonly plan: RunPlan;
  readonly model: Model;
  /** The model is the program's, and stays open. */
  readonly keepsModel: boolean;
  readonly parts: Steps;
  /** @param dealt what is played follows from it; undefined where a program chooses */
  readonly guards: (dealt: Dealt | undefined) => readonly Guard[];
  /** Opens the rewards that the options name, once. */
  readonly rewards: () => Promise<Rewards>;
  /** The learner, which starts meanwhile; undefined where no step is left. */
  readonly loading: Promise<void> | undefined;
  readonly events: RunEvents & Required<Pick<RunEvents, "log" | "signal">>;
  readonly close: () => Promise<void>;
}
