/** Tells of a model that calls other tools than its agent has: it learns nothing of the agent's until it plays it. */

import { callsIn, type Trajectory } from "../../core/rollout/trajectory.js";
import { modelFile } from "../../engine/models.js";

/** Names that are told. */
const SHOWN = 3;

/** Of the model `tiny`, in a task that is not about mail. */
export const TINY_KNOWS =
  "the tiny model knows the tools of the mail task alone, and calls them whatever tools there are; the smallest model that plays others is qwen2.5-0.5b";

export class UnknownTools {
  readonly #names = new Set<string>();
  #rollouts = 0;
  #calling = 0;
  #tiny = false;

  add(trajectory: Pick<Trajectory, "calls" | "branches" | "player">): void {
    const unknown = callsIn(trajectory).filter(({ outcome }) => outcome === "unknown_tool");
    this.#rollouts++;
    if (unknown.length > 0) this.#calling++;
    for (const { name } of unknown) this.#names.add(name.slice(0, 64));
    this.#tiny ||= trajectory.player.model === modelFile("tiny");
  }

  /** Undefined where fewer than half of the rollouts have such calls. */
  text(): string | undefined {
    if (this.#calling === 0 || 2 * this.#calling < this.#rollouts) return undefined;
    const names = [...this.#names];
    const more = names.length > SHOWN ? ` and ${names.length - SHOWN} more` : "";
    const why = this.#tiny
      ? `${TINY_KNOWS} (--model qwen2.5-0.5b)`
      : "--show has what it reads and writes; a larger model makes up fewer names";
    return `in ${this.#calling} of ${this.#rollouts} rollouts the model calls tools that the agent has not (${names.slice(0, SHOWN).join(", ")}${more}):\n${why}`;
  }
}
