/**
 * Filters that need no model: what a candidate is dropped for by its words alone, and by those of the questions that were kept
 * before it.
 */
import { sameAnswer } from "../email/answer.js";
import type { SplitPiece } from "./pieces.js";
import type { Candidate } from "./questions.js";
import { flat, overlap, Rarity, stems } from "./words.js";

/** Why a candidate is dropped; keys of the summary. */
export type DropReason =
  /** No question, no answer, or an answer as long as a text. */
  | "malformed"
  /** The quotation is not in the piece. */
  | "not_quoted"
  /** The question has its answer in it. */
  | "answer_in_question"
  /** As a question that was kept before. */
  | "duplicate"
  /** A question of the other side of the split is answered by this one's evidence, or this one by its. */
  | "leak"
  /** The second look found no answer in the evidence. */
  | "unanswerable"
  /** The second look found another answer, or a different one each time. */
  | "other_answer"
  /** The answer was given without the evidence. */
  | "known_without_evidence"
  /** The model's server or its form of answer failed for good. */
  | "no_verdict"
  /** A person dropped it. */
  | "reviewer";

/** A candidate with its piece and its words. */
export interface Draft extends Candidate {
  readonly piece: SplitPiece;
  /** All words of the question. */
  readonly asked: ReadonlySet<string>;
  /** Those of them that its evidence has: what it is about, not how it is worded. */
  readonly about: ReadonlySet<string>;
  readonly answered: ReadonlySet<string>;
}

/** Characters of an answer at most: a longer one cannot be compared. */
const ANSWER = 500;

/** Common words of two questions with the same answer that make them one question. */
const SAME = 0.4;
/** Of two with different answers: only a repetition with another answer, which makes both ambiguous. */
const REPEATED = 0.9;
/** Words of a question and its answer that evidence must have to give it away. */
const GIVEN_AWAY = 0.8;

export function draftOf(candidate: Candidate, piece: SplitPiece): Draft {
  const asked = new Set(stems(candidate.question));
  const about = new Set([...asked].filter((word) => piece.words.has(word)));
  const answered = new Set(stems(candidate.answer));
  return { ...candidate, piece, asked, about: about.size > 0 ? about : asked, answered };
}

/** What is wrong with a candidate as it stands. */
export function flawOf({ question, answer, quote, piece, asked, answered }: Draft): DropReason | undefined {
  if (question.trim() === "" || answered.size === 0 || answer.length > ANSWER) return "malformed";
  const quoted = flat(quote);
  if (quoted === "" || !flat(piece.text).includes(quoted)) return "not_quoted";
  return [...answered].every((word) => asked.has(word)) ? "answer_in_question" : undefined;
}

const agree = (a: Draft, b: Draft) =>
  sameAnswer(a.answer, b.answer, a.question) ||
  sameAnswer(b.answer, a.answer, b.question) ||
  overlap(a.answered, b.answered, () => 1) >= GIVEN_AWAY;

/** The questions that were kept, for comparison with the next. */
export class Kept {
  readonly #rarity: Rarity;
  readonly #kept: Draft[] = [];

  constructor(pieces: readonly SplitPiece[]) {
    this.#rarity = new Rarity(pieces.map(({ words }) => words));
  }

  /** Compares with those that were kept. */
  clash(draft: Draft): DropReason | undefined {
    if (this.#kept.some((kept) => this.#repeats(draft, kept))) return "duplicate";
    const leaks = (kept: Draft) =>
      kept.piece.split !== draft.piece.split &&
      (this.#givesAway(kept.piece, draft) || this.#givesAway(draft.piece, kept));
    return this.#kept.some(leaks) ? "leak" : undefined;
  }

  add(draft: Draft): void {
    this.#kept.push(draft);
  }

  #repeats(a: Draft, b: Draft): boolean {
    const alike = overlap(a.asked, b.asked, () => 1);
    if (alike === 1) return true;
    // Rows of one table are asked about alike, and may have the same answers: what one question names must be in the other's evidence.
    const sameSubject = this.#names(a.piece, b) || this.#names(b.piece, a);
    if (!sameSubject) return false;
    return alike >= REPEATED || (agree(a, b) && overlap(a.about, b.about, this.#rarity.weight) >= SAME);
  }

  #names({ words }: SplitPiece, { about }: Draft): boolean {
    return this.#rarity.covered(about, words) >= GIVEN_AWAY;
  }

  /** Whether one stretch of the evidence has both what the question names and its answer. */
  #givesAway({ stretches }: SplitPiece, { about, answered }: Draft): boolean {
    return stretches.some((words) =>
      [about, answered].every((wanted) => this.#rarity.covered(wanted, words) >= GIVEN_AWAY),
    );
  }
}
