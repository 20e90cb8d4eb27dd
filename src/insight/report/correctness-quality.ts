/**
 * How well a judge tells right answers from wrong ones (`--accuracy judge`), measured on rollouts with labels: the task's own
 * comparison. Intervals are of 95 % and count a question as a cluster.
 */
import { printable } from "../../core/util/text.js";
import { costOf, costText, counted, line, shareOf } from "../../judge/quality.js";
import { pairsOf } from "../../judge/ruler.js";

/** An answer that was judged, once or several times. */
export interface JudgedAnswer {
  readonly scenario: string;
  /** Its length in characters. */
  readonly length: number;
  /** Whether the task's own comparison accepts it. */
  readonly right: boolean;
  /** Of all votes that were given; null without a verdict. */
  readonly accepted: boolean | null;
  readonly votes: readonly boolean[];
  /** Dollars of its questions; null where it is not known, or a verdict was remembered. */
  readonly cost: number | null;
}

export function correctnessQuality(answers: readonly JudgedAnswer[]) {
  const questions = new Map<string, JudgedAnswer[]>();
  const decided = answers.filter(({ accepted }) => accepted !== null);
  for (const one of decided) questions.set(one.scenario, [...(questions.get(one.scenario) ?? []), one]);
  const share = (outcomes: (of: readonly JudgedAnswer[]) => boolean[]) =>
    shareOf([...questions.values()].map((of) => counted(outcomes(of))));
  const labelled = (label: boolean) =>
    share((of) => of.filter(({ right }) => right === label).map(({ accepted }) => accepted === label));
  return {
    /** Answers with a verdict. */
    answers: decided.length,
    /** Answers that the judge decides as the task does. */
    accuracy: share((of) => of.map(({ right, accepted }) => right === accepted)),
    /** Of the answers that the task accepts, those that the judge accepts (sensitivity). */
    right: labelled(true),
    /** Of the others, those that the judge refuses (specificity). A right answer in other words counts against the judge. */
    wrong: labelled(false),
    /** Pairs of one question with equal labels, decided differently, in which the longer answer is accepted; 0.5 without a bias. */
    longer: share((of) =>
      pairsOf(of).flatMap(([a, b]) => {
        if (a.right !== b.right || a.accepted === b.accepted || a.length === b.length) return [];
        return [a.accepted === a.length > b.length];
      }),
    ),
    /** Pairs of votes on one answer that decide alike; null with one vote. */
    itself: share((of) => of.flatMap(({ votes }) => pairsOf(votes).map(([a, b]) => a === b))),
    /** Of one answer. */
    cost: costOf(answers.flatMap(({ cost }) => cost ?? [])),
  };
}

/** Lines for the terminal. */
export function correctnessQualityText(quality: ReturnType<typeof correctnessQuality>, judge?: string): string {
  return [
    `${judge === undefined ? "" : `${printable(judge)} `}against the task's own comparison`,
    line("decides as the task", quality.accuracy, "answers", "–"),
    line("right ones accepted", quality.right, "answers that the task accepts", "–"),
    line("wrong ones refused", quality.wrong, "answers that the task does not accept", "–"),
    line("longer accepted", quality.longer, "pairs with equal labels, decided differently", "–"),
    line("agrees with itself", quality.itself, "pairs of votes", "– (give --judge-votes 2 or more)"),
    `  ${"costs".padEnd(20)}${costText(quality.cost).replace("a question", "an answer")}`,
  ].join("\n");
}
