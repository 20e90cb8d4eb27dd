/**
 * Snippets around hits, as FTS5's snippet() chooses them (for ART-E: 15 tokens, `<b>`, " ... "). Computed here because
 * FTS5 compares every occurrence of a word with every other, which took 30 ms for ten long mails with a common word;
 * this search is bounded.
 */
import { cutText } from "../core/util/text.js";
import { fold, isUnspaced, wordsIn } from "./words.js";

/** Number of words in a snippet, and of characters where they have the place of words. */
const LENGTH = { words: 15, characters: 40 };
/** Characters by which it is told which of the two a text has. */
const HEAD = 1000;
/** Number of words after the first occurrence in which a better place is searched for. */
const PATIENCE = 150;
/** Mail contains "words" of a page of base64. */
const MAX_CHARACTERS = 300;

/** A keyword's words, folded. */
type Phrase = readonly string[];

/** Keywords in the form for {@link snippetOf}. A keyword without any word gives no phrase. */
export function phrasesOf(keywords: readonly string[]): Phrase[] {
  return keywords
    .map((keyword) => (keyword.match(wordsIn(keyword)) ?? []).map(fold))
    .filter((phrase) => phrase.length > 0);
}

interface Word {
  readonly start: number;
  readonly end: number;
  readonly folded: string;
  /** The first word of its sentence. */
  readonly sentence: number;
}

/** A phrase that begins at a word. */
interface Occurrence {
  readonly phrase: Phrase;
  readonly at: number;
}

/** A text's words, from its beginning on as far as a snippet of it may need them. */
interface Words {
  readonly text: string;
  readonly words: readonly Word[];
  /** In the order of the text. */
  readonly found: readonly Occurrence[];
  /** Number of words in a snippet of this text. */
  readonly length: number;
}

/** What stands before the first word of a sentence; no gap follows an ideographic full stop. */
const sentenceEnd = /(?:\u3002|[.:][ \t\n\r]+)$/;

function isMostlyUnspaced(text: string): boolean {
  if (!isUnspaced(text)) return false;
  const words = text.slice(0, HEAD).match(wordsIn(text)) ?? [];
  return words.filter(isUnspaced).length * 2 > words.length;
}

const isAt = (words: readonly Word[], at: number, phrase: Phrase) =>
  phrase.every((folded, offset) => words[at + offset]?.folded === folded);

function read(text: string, phrases: readonly Phrase[]): Words {
  // ASCII text, as in most mail, keeps its length in lower case, and its words are found three times as fast.
  const isAscii = !/[\u0080-\uffff]/.test(text);
  const length = isMostlyUnspaced(text) ? LENGTH.characters : LENGTH.words;
  const words: Word[] = [];
  const found: Occurrence[] = [];
  let first = Number.POSITIVE_INFINITY;
  for (const { 0: word, index: start } of (isAscii ? text.toLowerCase() : text).matchAll(
    isAscii ? /[a-z0-9]+/g : wordsIn(text),
  )) {
    // A snippet that begins with the last occurrence, and the phrases at its end.
    if (words.length > first + PATIENCE + 2 * length) break;
    const before = words.at(-1);
    const begins = before === undefined || sentenceEnd.test(text.slice(before.end, start));
    const folded = isAscii ? word : fold(word);
    words.push({ start, end: start + word.length, folded, sentence: begins ? words.length : before.sentence });
    for (const phrase of phrases) {
      const at = words.length - phrase.length;
      if (phrase.at(-1) !== folded || !isAt(words, at, phrase)) continue;
      found.push({ phrase, at });
      first = Math.min(first, at);
    }
  }
  const near = found.filter(({ at }) => at < first + PATIENCE).sort((a, b) => a.at - b.at);
  return { text, words, found: near, length };
}

/** Start of a snippet and its score. */
interface Place {
  readonly start: number;
  readonly score: number;
}

/**
 * FTS5's choice: most different phrases, then the beginning of a sentence (preferably of the text), then most
 * occurrences, then the first. Without a sentence's beginning the occurrences are centred.
 */
function bestPlace({ words, found, length }: Words): Place {
  const within = (from: number) => found.filter(({ at }) => at >= from && at < from + length);
  const score = (seen: readonly Occurrence[]) => {
    const different = new Set(seen.map(({ phrase }) => phrase)).size;
    return 1000 * different + (seen.length - different);
  };
  return found.reduce<Place>(
    (best, { at }) => {
      const seen = within(at);
      const last = seen.at(-1) as Occurrence;
      const centred = at - Math.trunc((length - (last.at + last.phrase.length - at)) / 2);
      const { sentence } = words[at] as Word;
      const places = [{ start: Math.max(0, Math.min(centred, words.length - length)), score: score(seen) }];
      if (sentence !== at && words.length > length) {
        places.push({ start: sentence, score: score(within(sentence)) + (sentence === 0 ? 120 : 100) });
      }
      return places.reduce((one, other) => (other.score > one.score ? other : one), best);
    },
    { start: 0, score: 0 },
  );
}

function cut({ text, words, length }: Words, start: number, phrases: readonly Phrase[]): string {
  const end = Math.min(start + length, words.length);
  let from = start === 0 ? 0 : (words[start] as Word).start;
  let snippet = start === 0 ? "" : "... ";
  const write = (to: number, mark: string) => {
    snippet += text.slice(from, to) + mark;
    from = to;
  };
  /** Behind the phrase that is being marked. Overlapping phrases are marked as one. */
  let past = start;
  for (const [offset, word] of words.slice(start, end).entries()) {
    const index = start + offset;
    const longest = Math.max(0, ...phrases.map((phrase) => (isAt(words, index, phrase) ? phrase.length : 0)));
    if (longest > 0 && index >= past) write(word.start, "<b>");
    past = Math.max(past, index + longest);
    if (index + 1 === Math.min(past, end)) write(word.end, "</b>");
  }
  if (words.length <= start + length) write(text.length, "");
  else write((words[end - 1] as Word).end, " ...");
  return snippet;
}

/** Joins lines, and removes the rules and gaps that fill lines of mail. */
function tidy(snippet: string): string {
  const line = snippet
    .replace(/\s+/g, " ")
    .replace(/([^\p{L}\p{N}\s])\1{3,}/gu, "$1$1$1")
    .trim();
  if (line.length <= MAX_CHARACTERS) return line;
  const kept = cutText(line, MAX_CHARACTERS).replace(/<\/?b?$/, "");
  return `${kept}${kept.lastIndexOf("<b>") > kept.lastIndexOf("</b>") ? "</b>" : ""} ...`;
}

/** The best place of a mail for these keywords, which are put in `<b>`. " ..." marks omitted text. */
export function snippetOf(subject: string, body: string, phrases: readonly Phrase[]): string {
  const [inSubject, inBody] = [read(subject, phrases), read(body, phrases)];
  const [subjectPlace, bodyPlace] = [bestPlace(inSubject), bestPlace(inBody)];
  const isInSubject = subjectPlace.score > 0 && subjectPlace.score >= bodyPlace.score;
  return tidy(isInSubject ? cut(inSubject, subjectPlace.start, phrases) : cut(inBody, bodyPlace.start, phrases));
}
