/** Tells of a model that calls other tools than its agent has: it learns nothing of the agent's until it plays it. */

import { callsIn, type Trajectory } from "../../core/rollout/trajectory.js";
import { modelFile } from "../../engine/models.js";

/** Names that are told. */
const SHOWN = 3;

/** Of the model `tiny`, in a task that is not about mail. */
export const TINY_KNOWS =
  "the tiny model knows the tools of the mail task alone, and calls them whatever tools there are; the smallest model that plays others is qwen2.5-0.5b";

/** Undefined where fewer than half of the rollouts have such calls. */
export function unknownToolsText(
  rollouts: readonly Pick<Trajectory, "calls" | "branches" | "player">[],
): string | undefined {
  const unknown = rollouts
    .map((rollout) => callsIn(rollout).filter(({ outcome }) => outcome === "unknown_tool"))
    .filter(({ length }) => length > 0);
  if (unknown.length === 0 || 2 * unknown.length < rollouts.length) return undefined;
  const names = [...new Set(unknown.flat().map(({ name }) => name.slice(0, 64)))];
  const more = names.length > SHOWN ? ` and ${names.length - SHOWN} more` : "";
  const why = rollouts.some(({ player }) => player.model === modelFile("tiny"))
    ? `${TINY_KNOWS} (--model qwen2.5-0.5b)`
    : "--show has what it reads and writes; a larger model makes up fewer names";
  return `in ${unknown.length} of ${rollouts.length} rollouts the model calls tools that the agent has not (${names.slice(0, SHOWN).join(", ")}${more}):\n${why}`;
}
