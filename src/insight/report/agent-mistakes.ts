/**
 * Tells of rollouts that an error of the agent's code ended after a turn of the model that was wrong: they count as the model's
 * mistake, and where the error is the agent's own, nothing else shows it.
 */
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { printable } from "../../core/util/text.js";

/** As src/agent/mistakes.ts begins their reason. */
const MISTAKE = /^the model's mistake: /;

/** Undefined where fewer than half of the rollouts ended so. */
export function agentMistakesText(rollouts: readonly Pick<Trajectory, "reason">[]): string | undefined {
  const mistakes = rollouts.flatMap(({ reason = "" }) => (MISTAKE.test(reason) ? [reason.replace(MISTAKE, "")] : []));
  const [first] = mistakes;
  if (first === undefined || 2 * mistakes.length < rollouts.length) return undefined;
  return `${mistakes.length} of ${rollouts.length} rollouts ended by an error of the agent's code that counts as the model's mistake, with reward 0; the first: ${printable(first)}.\nWhere the fault is the agent's, say so in its modelMistakes (docs/agents.md)`;
}
