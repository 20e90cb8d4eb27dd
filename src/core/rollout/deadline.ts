/**
 * The cause of a deadline. A player that wrote until the rollout's time was over has failed; one whose tools hung, that waited for the
 * engine while others played, or for which the engine is too slow, has not, and must not be trained on it.
 */

/**
 * The main use of the rollout's time: the player's own writing, the task's tools, or waiting for the engine. Or one turn used up its own
 * time: what a player writes is limited in tokens, so that its engine is slow.
 */
export type DeadlineCause = "generation" | "tools" | "queue" | "turn";

/** Seconds. */
export interface TimeSpent {
  /** In the player's turns, including waiting for the engine. */
  readonly player: number;
  /** Part of those before the engine began with the turn. */
  readonly queue: number;
  readonly tools: number;
}

/**
 * Of the whole rollout: "generation" when the player wrote for at least half of the time.
 * @param whole seconds until the limit
 * @param turnSeconds limit of a turn; without one, turns are none of the rollout's time
 */
export function deadlineCause({ player, queue, tools }: TimeSpent, whole: number, turnSeconds: number): DeadlineCause {
  if (turnSeconds === Number.POSITIVE_INFINITY) return "tools";
  if (player - queue >= whole / 2) return "generation";
  return tools > queue ? "tools" : "queue";
}

interface Ended {
  readonly end: string;
  /** Of the end "deadline". */
  readonly deadlineCause?: DeadlineCause | undefined;
}

/** The counter's name for a rollout that ended by no fault of its player; null for all others. */
export function brokenOff({ end, deadlineCause }: Ended): string | null {
  if (end === "tool_failure") return end;
  return deadlineCause === undefined || deadlineCause === "generation" ? null : `deadline_${deadlineCause}`;
}
