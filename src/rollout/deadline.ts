/**
 * Whose a deadline was. A player that wrote until its time was over has failed; one whose tools hung, or that waited
 * for the engine while others played, has not, and nothing about it can be learnt from that.
 */
import type { RolloutEnd } from "../tasks/index.js";

/** What the time went into: the player's own writing, the task's tools, or waiting for the engine. */
export type DeadlineCause = "generation" | "tools" | "queue";

/** Seconds. */
export interface TimeSpent {
  /** In the player's turns, waiting for the engine included. */
  readonly player: number;
  /** Of those, the ones in which the engine had not begun with the turn. */
  readonly queue: number;
  readonly tools: number;
}

/**
 * The player's own, when it wrote for half of the time or more.
 * @param whole seconds that had passed when the limit came
 */
export function deadlineCause({ player, queue, tools }: TimeSpent, whole: number): DeadlineCause {
  if (player - queue >= whole / 2) return "generation";
  return tools > queue ? "tools" : "queue";
}

interface Ended {
  readonly end: RolloutEnd;
  readonly deadlineCause?: DeadlineCause;
}

/**
 * The name under which a rollout is counted that ended by no fault of its player; null for all others. A deadline
 * without a cause, in what hone wrote before it noted causes, counts as the player's: it was trained as such.
 */
export function brokenOff({ end, deadlineCause = "generation" }: Ended): string | null {
  if (end === "tool_failure") return end;
  return end === "deadline" && deadlineCause !== "generation" ? `deadline_${deadlineCause}` : null;
}
