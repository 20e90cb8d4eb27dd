/**
 * Makes scenarios from a source: a model writes candidates from each piece, and those are kept that hold. Pieces are taken in an
 * order that the seed draws, a few at a time, and the result depends on neither the concurrency nor interruptions: what was
 * answered before comes from the cache.
 */
import { createHash } from "node:crypto";
import type { Judge } from "../judge/judge.js";
import { NoVerdict } from "../judge/no-verdict.js";
import { type Draft, type DropReason, draftOf, flawOf, Kept } from "./checks.js";
import { readScenarioFile, type ScenarioRow, withReviews, writeScenarioFile } from "./file.js";
import { type Looked, look } from "./look.js";
import { count, type Source, type SplitPiece, splitPieces } from "./pieces.js";
import { writingQuestion } from "./questions.js";

export interface GenerateSettings {
  readonly source: Source;
  readonly judge: Judge;
  /** Scenarios wanted. */
  readonly n: number;
  /** Questions of one piece at most. */
  readonly perPiece: number;
  /** Tries with and without the evidence; a majority decides. */
  readonly tries: number;
  readonly testShare: number;
  readonly seed: number;
  readonly about: string | undefined;
  /** The file that is written. */
  readonly out: string;
}

export interface GenerateIo {
  readonly signal: AbortSignal;
  onProgress(progress: { readonly kept: number; readonly pieces: number; readonly of: number }): void;
}

/** Pieces at a time. The number is part of the result: it does not follow the concurrency. */
const AT_A_TIME = 8;
/** Pieces that are explored for each scenario wanted, since not every one gives one. */
const PIECES_EACH = 3;

/** One candidate's fate. */
interface Judged extends Looked {
  readonly draft: Draft;
}

function rowOf({ draft, reason, evidence }: Judged, { source, judge }: GenerateSettings): ScenarioRow {
  const { piece, question, answer, quote } = draft;
  const content = JSON.stringify([piece.id, question, answer]);
  return {
    id: `${source.kind}-${createHash("sha256").update(content).digest("hex").slice(0, 12)}`,
    split: piece.split,
    question: question.trim(),
    answer: answer.trim(),
    ...piece.fields,
    evidence: [piece.id],
    quote,
    provenance: {
      source: source.kind,
      from: source.name,
      title: piece.title,
      sha256: piece.sha256,
      written_by: judge.name,
      checked_by: judge.all.map(({ name }) => name),
      agreed: `${evidence.agreed} of ${evidence.tries}`,
    },
    ...(reason === undefined ? {} : { dropped: reason }),
  };
}

/**
 * Writes the file after each few pieces.
 *
 * @throws JudgeStopped when the model cannot be asked any more, or its cost cap is reached: the file has what was kept
 */
export async function generate(settings: GenerateSettings, io: GenerateIo) {
  const { source, n, testShare, seed, out } = settings;
  // Something else in its place is an error before anything is paid for.
  readScenarioFile(out);
  const explored = await source.explore(PIECES_EACH * n, seed, io.signal);
  const pieces = splitPieces(explored.pieces, testShare, seed);
  const kept = new Kept(pieces);
  const judged: Judged[] = [];
  const dropped: Partial<Record<DropReason, number>> = {};
  let silent = 0;
  let at = 0;
  const keptRows = () => judged.filter(({ reason }) => reason === undefined);
  // A model may write one candidate twice, and a person may be looking the file over at the same time.
  const rows = () =>
    withReviews(
      judged.map((one) => rowOf(one, settings)),
      readScenarioFile(out),
    );
  while (at < pieces.length && keptRows().length < n) {
    const taken = pieces.slice(at, at + AT_A_TIME);
    const drafts = await Promise.all(taken.map((piece) => write(piece, settings, io.signal)));
    silent += drafts.filter(({ length }) => length === 0).length;
    const looked = await Promise.all(drafts.flat().map((draft) => check(draft, kept, settings, io.signal)));
    for (const one of looked) {
      if (keptRows().length === n) break;
      // Two drafts of one round may clash with each other.
      const reason = one.reason ?? kept.clash(one.draft);
      if (reason === undefined) kept.add(one.draft);
      else count(dropped, reason);
      judged.push({ ...one, reason });
    }
    at += taken.length;
    writeScenarioFile(out, rows());
    io.onProgress({ kept: keptRows().length, pieces: at, of: pieces.length });
  }
  const file = rows();
  if (pieces.length === 0) writeScenarioFile(out, file);
  const side = (split: string) => file.kept.filter((row) => row.split === split).length;
  return {
    /** Pieces from which questions were written, of those that were explored. */
    pieces: at,
    explored: pieces.length,
    /** Parts of the source from which nothing can be asked, by reason. */
    skipped: explored.skipped,
    /** Pieces from which the model wrote none. */
    silent,
    candidates: judged.length,
    train: side("train"),
    test: side("test"),
    dropped,
    /** Rows of the file that a person decided about. */
    reviewed: [...file.kept, ...file.dropped].filter(({ reviewed }) => reviewed).length,
  };
}

async function write(
  piece: SplitPiece,
  { judge, perPiece, about }: GenerateSettings,
  signal: AbortSignal,
): Promise<Draft[]> {
  try {
    const { value } = await judge.ask(writingQuestion(piece, perPiece, about), signal);
    return value.map((candidate) => draftOf(candidate, piece));
  } catch (error) {
    // A piece that the model cannot write about in the required form gives no question.
    if (error instanceof NoVerdict) return [];
    throw error;
  }
}

/** The cheapest filters come first. */
async function check(
  draft: Draft,
  kept: Kept,
  { judge, tries }: GenerateSettings,
  signal: AbortSignal,
): Promise<Judged> {
  const reason = flawOf(draft) ?? kept.clash(draft);
  if (reason !== undefined) return { draft, reason, evidence: { agreed: 0, tries: 0 } };
  return { draft, ...(await look(draft, judge, tries, signal)) };
}
