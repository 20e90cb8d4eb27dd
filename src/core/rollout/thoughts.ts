/**
 * Thoughts that a model writes before its answer, between marks of its own. They stay in the history as sampled; calls
 * and answers are read from the text after them.
 */

export interface ThoughtMarks {
  readonly open: string;
  readonly close: string;
  /** Text that closes unfinished thoughts, as templates write it. */
  readonly ending: string;
}

const known: readonly ThoughtMarks[] = [
  { open: "<think>", close: "</think>", ending: "\n</think>\n\n" },
  { open: "[THINK]", close: "[/THINK]", ending: "[/THINK]" },
];

/** The marks that a chat template uses. */
export const marksOf = (template: string): ThoughtMarks | undefined =>
  known.find(({ close }) => template.includes(close));

export interface Split {
  /** As written, including marks; "" when the turn has none. */
  readonly thoughts: string;
  /** The text after them. */
  readonly said: string;
  /** Whether the thoughts are unfinished. */
  readonly open: boolean;
}

/** A turn without its thoughts, whatever template it was written under. */
export function withoutThoughts(text: string): string {
  const marks = known.find(({ close }) => text.includes(close));
  return marks ? splitThoughts(text, marks, true).said.trim() : text;
}

/**
 * @param opened whether the prompt itself ends with the opening mark
 */
export function splitThoughts(text: string, marks: ThoughtMarks | undefined, opened: boolean): Split {
  if (!marks || !(opened || text.trimStart().startsWith(marks.open))) return { thoughts: "", said: text, open: false };
  const close = text.indexOf(marks.close);
  if (close < 0) return { thoughts: text, said: "", open: true };
  const end = close + marks.close.length;
  return { thoughts: text.slice(0, end), said: text.slice(end), open: false };
}
