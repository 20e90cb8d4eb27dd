/** Filters that ask the model again: from the evidence without the answer shown, and without the evidence. */

import { sameAnswer } from "../email/answer.js";
import { judgeCorrectness } from "../judge/correctness.js";
import type { Judge, Question } from "../judge/judge.js";
import { NoVerdict } from "../judge/no-verdict.js";
import type { Draft, DropReason } from "./checks.js";
import { answeringQuestion, guessingQuestion, type Look } from "./questions.js";

/** Tries that gave the answer, of those that were made. */
export interface Agreement {
  readonly agreed: number;
  readonly tries: number;
}

export interface Looked {
  readonly reason: DropReason | undefined;
  readonly evidence: Agreement;
}

interface Tries extends Agreement {
  /** Tries that gave no answer. */
  readonly none: number;
  readonly isMajority: boolean;
}

/**
 * Asks until a majority of `most` tries has the answer, or cannot have it any more: the first tries, which are needed in any
 * case, at once. Several judges take turns.
 */
async function tried(
  draft: Draft,
  judge: Judge,
  most: number,
  questionOf: (attempt: number) => Question<Look>,
  signal: AbortSignal,
): Promise<Tries> {
  const need = Math.floor(most / 2) + 1;
  const { all } = judge;
  const one = async (attempt: number): Promise<"right" | "wrong" | "none"> => {
    const { value } = await (all[attempt % all.length] as Judge).ask(questionOf(attempt), signal);
    if (value === null) return "none";
    return (await isRight(draft, value, judge, signal)) ? "right" : "wrong";
  };
  const said = await Promise.all(Array.from({ length: need }, (_, attempt) => one(attempt)));
  const count = (what: string) => said.filter((each) => each === what).length;
  while (count("right") < need && said.length - count("right") <= most - need) said.push(await one(said.length));
  return { agreed: count("right"), none: count("none"), tries: said.length, isMajority: count("right") >= need };
}

/** As words, else by the judges: whether both answers say the same. */
async function isRight(
  { question, answer }: Draft,
  given: string,
  judge: Judge,
  signal: AbortSignal,
): Promise<boolean> {
  if (sameAnswer(given, answer, question)) return true;
  return (await judgeCorrectness({ question, golden: answer, given }, judge, signal)).accept;
}

/**
 * Whether a draft holds.
 * @throws JudgeStopped when nothing can be asked any more
 */
export async function look(draft: Draft, judge: Judge, tries: number, signal: AbortSignal): Promise<Looked> {
  const nothing = { agreed: 0, tries: 0 };
  try {
    const { none, isMajority, ...evidence } = await tried(
      draft,
      judge,
      tries,
      (attempt) => answeringQuestion(draft, draft.piece, attempt),
      signal,
    );
    if (!isMajority) return { reason: 2 * none >= evidence.tries ? "unanswerable" : "other_answer", evidence };
    const guesses = await tried(
      draft,
      judge,
      tries,
      (attempt) => guessingQuestion(draft, draft.piece, attempt),
      signal,
    );
    return { reason: guesses.isMajority ? "known_without_evidence" : undefined, evidence };
  } catch (error) {
    if (!(error instanceof NoVerdict)) throw error;
    return { reason: "no_verdict", evidence: nothing };
  }
}
