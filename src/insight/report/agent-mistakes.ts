/**
 * Tells of rollouts that an error of the agent's code ended after a turn of the model that was wrong: they count as the model's
 * mistake, and where the error is the agent's own, nothing else shows it.
 */
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { printable } from "../../core/util/text.js";

/** As src/agent/mistakes.ts begins their reason. */
const MISTAKE = /^the model's mistake: /;

export class AgentMistakes {
  #rollouts = 0;
  #mistakes = 0;
  #first = "";

  add({ reason = "" }: Pick<Trajectory, "reason">): void {
    this.#rollouts++;
    if (!MISTAKE.test(reason)) return;
    if (this.#mistakes++ === 0) this.#first = printable(reason.replace(MISTAKE, ""));
  }

  /** Undefined where fewer than half of the rollouts ended so. */
  text(): string | undefined {
    if (this.#mistakes === 0 || 2 * this.#mistakes < this.#rollouts) return undefined;
    return `${this.#mistakes} of ${this.#rollouts} rollouts ended by an error of the agent's code that counts as the model's mistake, with reward 0; the first: ${this.#first}.\nWhere the fault is the agent's, say so in its modelMistakes (docs/agents.md)`;
  }
}
