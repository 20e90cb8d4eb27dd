/**
 * ART-E's graded reward, for answers that a judge of correctness has called right or wrong (`--reward shaped`).
 *
 * `partial` is 0.1 each for: evidence found; evidence read; no mail asked for that does not exist; a source is evidence.
 *
 * | case, the first that applies | reward |
 * | --- | --- |
 * | ended by an unparseable call | −2 + partial |
 * | ended by a call of an unknown tool | −1.9 + partial |
 * | ended by wrong arguments, or a turn without a call | −1.8 + partial |
 * | wrong answer | −1 + partial |
 * | "I don't know", or out of turns, tokens or time | 0 + partial |
 * | right answer | 1 + 0.3 a source is evidence + 0.1/number of sources + 0.1·(1 − turns/max turns) |
 *
 * Bad calls end a rollout under `--on-tool-error stop` alone, as in ART. Under `observe` the model reads its mistake and
 * goes on: each such call then costs 0.05, whatever becomes of the rollout.
 *
 * Two things are unlike ART's code: the number of sources counts (ART never sets it), and fewer turns score higher
 * (copies of ART-E reward more of them). A turn that was cut at its token limit has no call and counts as that.
 */
import type { CallOutcome, Claim, FinishedRollout, Reward } from "../core/task/task.js";
import { isGivingUp } from "./answer.js";
import { answerOf, type Evidence, evidenceOf } from "./reward.js";
import type { EmailScenario } from "./scenario.js";

const PART = 0.1;
/** Penalty of a bad call that did not end the rollout. */
const BAD_CALL = 0.05;

const terminal: Readonly<Partial<Record<CallOutcome, number>>> = {
  malformed: -2,
  unknown_tool: -1.9,
  bad_arguments: -1.8,
};

/** The claim for a judge; null where the rollout gave no answer, or said that there is none. */
export function emailClaim(rollout: FinishedRollout, scenario: EmailScenario): Claim | null {
  const given = answerOf(rollout);
  if (given === undefined || isGivingUp(given)) return null;
  return { question: scenario.question, golden: scenario.answer, given };
}

/**
 * @param right whether the judge accepted the answer
 * @param resolveId as for `emailReward`
 */
export function shapedReward(
  rollout: FinishedRollout,
  scenario: EmailScenario,
  resolveId: (id: string) => string | undefined,
  right: boolean,
): Reward {
  const evidence = evidenceOf(rollout, scenario, resolveId);
  const valid = !rollout.calls.some(({ name, outcome }) => name === "read_email" && outcome === "tool_error");
  const sources = evidence.right > 0;
  const partial = PART * [evidence.found, evidence.read, valid, sources].filter(Boolean).length;
  const bad = rollout.calls.filter(({ outcome }) => terminal[outcome] !== undefined).length;

  const base = baseOf(rollout, right);
  const success = base === "right";
  const graded = success ? ofRight(rollout, evidence) : base + partial;
  const observed = rollout.end === "bad_call" ? 0 : BAD_CALL * bad;
  const parts = {
    right: success,
    found: evidence.found,
    read: evidence.read,
    valid_ids: valid,
    sources_correct: sources,
  };
  return {
    reward: graded - observed,
    success,
    parts: {
      ...Object.fromEntries(Object.entries(parts).map(([name, value]) => [name, value ? 1 : 0])),
      sources: evidence.references,
      bad_calls: bad,
    },
  };
}

function baseOf(rollout: FinishedRollout, right: boolean): number | "right" {
  if (rollout.end === "bad_call") return terminal[rollout.calls.at(-1)?.outcome ?? "malformed"] ?? -2;
  if (rollout.end === "no_tool_call" || rollout.end === "token_limit") return -1.8;
  const answer = answerOf(rollout);
  if (answer === undefined || isGivingUp(answer)) return 0;
  return right ? "right" : -1;
}

function ofRight({ turns, maxTurns }: FinishedRollout, { references, right }: Evidence): number {
  return 1 + (right > 0 ? 0.3 : 0) + (references > 0 ? 0.1 / references : 0) + 0.1 * (1 - turns / maxTurns);
}
