/**
 * The checkable reward of the email task: no judge, the same rollout gives the same reward. Honest work (search, read
 * the mail, answer, cite it) is the only way to a high one; each shortcut stays far below it.
 *
 * | behaviour (10 turns allowed) | reward |
 * | --- | --- |
 * | evidence found and read, right answer, only evidence cited, in 3 turns | 0.97 |
 * | the same in 6 turns | 0.94 |
 * | the same in 3 turns, but other mail cited as well, or nothing | 0.77 |
 * | evidence found, right answer without reading it (whatever is cited) | 0.2 |
 * | evidence read, then "not found" | 0.2 |
 * | right answer by guessing, evidence not even found | 0.1 |
 * | evidence read, then a wrong answer, or no answer at all | 0.1 |
 * | evidence found but not read, then "not found" | 0.1 |
 * | "not found" without having found it: at once, or after a search too few | 0 |
 * | wrong answer, or no answer, without evidence | −0.1 |
 *
 * That is: 0.1 found + 0.1 read + 0.1 right. Right and read: 0.4 more, 0.2 if cited correctly, and
 * 0.1·(1 − turns/max turns). −0.1 for a wrong answer and for none; saying "not found" costs nothing.
 *
 * With several mails that hold the answer, found and read ask for one of them; cited asks for one or more and nothing else.
 */
import type { FinishedRollout, Reward } from "../core/task/task.js";
import { isGivingUp, sameAnswer } from "./answer.js";
import type { EmailScenario } from "./scenario.js";

const weights = { found: 0.1, read: 0.1, right: 0.1, grounded: 0.4, cited: 0.2, turns: 0.1, unanswered: -0.1 };

/** Ids in a search result. */
function idsOf(result: unknown): string[] {
  if (!Array.isArray(result)) return [];
  return result.flatMap((hit: unknown) =>
    typeof hit === "object" && hit !== null && "message_id" in hit && typeof hit.message_id === "string"
      ? [hit.message_id]
      : [],
  );
}

/** How a rollout found and used the evidence mails. */
export interface Evidence {
  /** Whether a search returned it. */
  readonly found: boolean;
  /** Whether it was opened. */
  readonly read: boolean;
  /** Number of cited ids, and of those that are evidence. */
  readonly references: number;
  readonly right: number;
}

export function evidenceOf(
  rollout: FinishedRollout,
  scenario: EmailScenario,
  resolveId: (id: string) => string | undefined,
): Evidence {
  const resolve = (id: string) => resolveId(id) ?? id;
  const evidence = new Set(scenario.message_ids.map(resolve));
  const isEvidence = (id: unknown) => typeof id === "string" && evidence.has(resolve(id));
  const done = rollout.calls.filter((call) => call.outcome === "ok");
  const given = rollout.answer?.reference_message_ids;
  const references = Array.isArray(given) ? given : [];
  return {
    found: done.some((call) => call.name === "search_inbox" && idsOf(call.result).some(isEvidence)),
    read: done.some((call) => call.name === "read_email" && isEvidence(call.arguments.message_id)),
    references: references.length,
    right: references.filter(isEvidence).length,
  };
}

/** The answer's text; undefined if there was none. */
export function answerOf({ answer }: FinishedRollout): string | undefined {
  return typeof answer?.answer === "string" ? answer.answer : undefined;
}

/**
 * Computes the reward of one rollout.
 *
 * `success` is a right answer, read or not, as in ART-E's accuracy. `parts`, each 0 or 1: `right`; `found` (evidence
 * among the hits of a search); `read` (evidence opened); `cited` (only evidence is cited, and some is); `grounded`
 * (right and read); `gave_up` (states that there is no answer); `answered` (has called return_final_answer). Matching
 * is weak for long free text: see answer.ts.
 *
 * @param resolveId the mail with an id or alias; undefined if there is none
 */
export function emailReward(
  rollout: FinishedRollout,
  scenario: EmailScenario,
  resolveId: (id: string) => string | undefined,
): Reward {
  const evidence = evidenceOf(rollout, scenario, resolveId);
  const { found, read } = evidence;
  const answer = answerOf(rollout);
  const cited = evidence.references > 0 && evidence.right === evidence.references;
  const right = answer !== undefined && sameAnswer(answer, scenario.answer, scenario.question);
  const gaveUp = answer !== undefined && !right && isGivingUp(answer);
  const grounded = right && read;

  let reward = 0;
  if (found) reward += weights.found;
  if (read) reward += weights.read;
  if (right) reward += weights.right;
  else if (!gaveUp) reward += weights.unanswered;
  if (grounded) {
    reward += weights.grounded + weights.turns * (1 - rollout.turns / rollout.maxTurns);
    if (cited) reward += weights.cited;
  }
  const parts = { right, grounded, found, read, cited, gave_up: gaveUp, answered: answer !== undefined };
  return {
    reward,
    success: right,
    parts: Object.fromEntries(Object.entries(parts).map(([name, value]) => [name, value ? 1 : 0])),
  };
}
