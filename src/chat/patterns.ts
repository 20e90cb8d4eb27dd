/**
 * Regular expressions of JSON Schemas. The specification asks for those of JavaScript with its flag `u`; servers write those of
 * their own language. The forms in which these usually differ are written as JavaScript's, for a test of texts, where they mean the
 * same in every dialect that has them. All else that JavaScript does not take is not guessed.
 */

/** A pattern that says nothing here, and why. */
export class Untranslatable extends Error {}

const OTHER = "it is no regular expression of JavaScript's, nor one of another dialect whose meaning is certain";

/** Patterns are read up to this length. */
const LONGEST = 10_000;
/** Flags of the whole. */
const FLAGS = /^\(\?([is]+)\)/;
/** What may be written otherwise: escapes, classes, named groups and references to them, repetitions, and other brackets. */
const PARTS = /\\[\s\S]|\[(?:\\[\s\S]|[^\]\\])*\]|\(\?P<|\(\?P=\w+\)|\{\d*,?\d*\}|[{}\]]/gu;
const ANCHORS: Readonly<Record<string, string>> = { "\\A": "(?<![^])", "\\z": "(?![^])", "\\Z": "(?![^])" };

/** A character that is no letter and no digit, which stands for itself behind a backslash too. */
const itself = (character: string) => `\\u{${(character.codePointAt(0) as number).toString(16)}}`;

/** An escape, in a class or outside. */
const escapeOf = (written: string) => (/^\\[0-9A-Za-z]/.test(written) ? written : itself(written.slice(1)));

function classOf(written: string): string {
  const inner = written.slice(1, -1);
  // A ] at the beginning, a class within a class, and && mean different things.
  if (/^\^?$|&&|\[/.test(inner.replace(/\\[\s\S]/gu, "\\"))) throw new Untranslatable(OTHER);
  return `[${inner
    .replace(/\\[\s\S]/gu, escapeOf)
    // Beside a set of characters it is no range.
    .replace(/(\\[dDwWsS])-(?!$)/g, "$1\\-")
    .replace(/-(?=\\[dDwWsS])/g, "\\-")}]`;
}

function partOf(written: string): string {
  if (written.startsWith("\\")) return ANCHORS[written] ?? escapeOf(written);
  if (written.startsWith("[")) return classOf(written);
  if (written === "(?P<") return "(?<";
  if (written.startsWith("(?P=")) return `\\k<${written.slice(4, -1)}>`;
  return written.length === 1 ? itself(written) : written;
}

/** The pattern as JavaScript's. @throws Untranslatable */
export function translated(pattern: string): RegExp {
  try {
    return new RegExp(pattern, "u");
  } catch {
    // It is another dialect's, or wrong.
    if (pattern.length > LONGEST) throw new Untranslatable("it is no regular expression of JavaScript's, and too long");
  }
  const [begun = "", flags = ""] = FLAGS.exec(pattern) ?? [];
  try {
    return new RegExp(pattern.slice(begun.length).replace(PARTS, partOf), `u${flags}`);
  } catch (error) {
    throw error instanceof Untranslatable ? error : new Untranslatable(OTHER);
  }
}
